/* Checkpoints with the text model of models/tiny and something missing, for the tests of forge. Failures end the test (cmocka). */
#ifndef FORE_TESTS_HOSTS_H
#define FORE_TESTS_HOSTS_H

#include <cjson/cJSON.h>

#include "foresight.h"
#include "support/scratch.h"

#define TINY "models/tiny"

typedef enum host_kind {
    HOST_SINGLE,   /* model.safetensors */
    HOST_INDEXED,  /* two shards and their index */
    HOST_NUMBERED, /* two numbered shards, no index */
    HOST_ODD,      /* weights.safetensors, no index: every file of the folder counts */
    HOST_FLAT,     /* model.safetensors; config.json is that of a text model alone */
    HOST_KINDS
} host_kind;

/* In memory where that is possible: tests sync a lot of files. */
void host_folder(scratch *s);
/* models/tiny without its tower, what config.json says of it, and the processor's settings. */
void host_make(scratch *s, host_kind kind);
/* A folder with hard links to the files of another one, or copies of them. */
void host_link(const char *from, scratch *s);
/* Some of the tensors of models/tiny: those for which `takes` says so, under other names where `name` (may be NULL) gives one;
 * written to dir/file. */
void host_tensors(const scratch *s, const char *file, bool (*takes)(const char *name), const char *(*name)(const char *name));
/* config.json of a folder, owned (cJSON_Delete), and writing one. */
cJSON *host_config(const char *dir);
void host_put_config(const scratch *s, const char *name, const cJSON *tree);

/* What a folder answers to a question without a picture, and to one with (empty when it has no tower). */
typedef struct host_answers {
    bool vision;
    char text[512], picture[512];
} host_answers;
void host_ask(const char *dir, host_answers *out);

#endif
