/* Checkpoints of a hub that speaks Hugging Face's HTTP interface: finding them in its cache folder, whose layout is that of the
 * huggingface_hub library, and downloading them into it. This room knows HTTP and files, no models. The command is linked with
 * it, the library is not: who embeds Foresight has ways of its own to come by files. */
#ifndef FORE_HUB_HUB_H
#define FORE_HUB_HUB_H

#include "foresight.h"
#include "hub/listing.h"
#include "hub/names.h"

/* Everything is borrowed as long as a call runs. */
typedef struct fore_hub_settings {
    const char *endpoint; /* such as "https://huggingface.co", without a slash at the end */
    const char *token;    /* sent to the endpoint alone; NULL: none */
    const char *cache;    /* the folder with the folders of repositories */
    const char *ca_file;  /* certificates to trust; NULL: libcurl's own */
    int jobs;             /* files at once */
    double retry_seconds; /* the first wait before another try; each further one is twice as long */
    fore_progress progress; /* bytes of the files; may be NULL; called by several threads at once */
    void *user;
} fore_hub_settings;

/* The folder of a cached checkpoint, without the network; owned by the caller (fore_free), NULL (and FORE_OK) when it is not
 * there. */
fore_status fore_hub_find(const char *cache, const fore_hub_name *name, char **dir, fore_error *err);
/* Whether what an index of weights in the folder names is there, and a config.json; FORE_ERR_IO says what is missing. */
fore_status fore_hub_check(const char *dir, fore_error *err);

/* Asks the endpoint for the commit of the revision and the files in it. Free the listing in any case. */
fore_status fore_hub_list(const fore_hub_settings *settings, const fore_hub_name *name, fore_hub_listing *out, fore_error *err);

typedef struct fore_hub_report {
    char *dir; /* the snapshot's folder; owned (fore_free) */
    size_t files, fetched;
    uint64_t bytes, fetched_bytes; /* of all wanted files; of those that were not there, without what earlier runs had of them */
    double seconds;
} fore_hub_report;

/* Downloads the wanted files of the listing that are not there, and puts all of them into the snapshot. On failure nothing
 * is under a final name that is not whole and right, what was read of a file is gone on with by the next call, and the
 * revision means what it did before. FORE_ERR_LIMIT: not enough room on the disk. */
fore_status fore_hub_fetch(const fore_hub_settings *settings, const fore_hub_name *name, const fore_hub_listing *listing,
                           fore_hub_report *out, fore_error *err);

#endif
