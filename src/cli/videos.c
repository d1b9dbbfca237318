/* From flags to videos; see videos.h. */
#include "cli/videos.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static fore_video *add(cli_videos *v, const char *name, const cli_options *options) {
    v->items = cli_need(realloc(v->items, (v->count + 1) * sizeof *v->items));
    v->frames = cli_need(realloc(v->frames, (v->count + 1) * sizeof *v->frames));
    v->frames[v->count] = (cli_pictures){0};
    fore_video *video = &v->items[v->count++];
    *video = (fore_video){.name = cli_need(strdup(name)), .every_frame = options->all_frames};
    if (!isnan(options->take_fps)) video->sample_fps = options->take_fps;
    return video;
}

int cli_videos_add(cli_videos *v, const char *path, const cli_options *options) {
    if (!fore_video_files())
        return cli_fail("%s: this build reads no video files (FFmpeg's libraries were not there when it was made); give the frames as "
                        "pictures with --frames and --fps",
                        path);
    fore_video *video = add(v, path, options);
    video->path = video->name;
    return CLI_OK;
}

/* The rate of group `index`. */
static int read_rate(const cli_options *options, size_t index, double *fps) {
    if (!options->fps.count)
        return cli_fail_usage(options->verb, "--frames: how many of them are a second? --fps X is missing");
    const char *text = options->fps.items[options->fps.count == 1 ? 0 : index];
    char *end = NULL;
    *fps = strtod(text, &end);
    if (end == text || *end || !isfinite(*fps) || !(*fps > 0))
        return cli_fail_usage(options->verb, "--fps: expected a number above 0, found '%s'", text);
    return CLI_OK;
}

int cli_videos_add_all(cli_videos *v, const cli_options *options) {
    const cli_list *frames = &options->frames;
    size_t groups = 0;
    for (size_t i = 0; i < frames->count; i++) groups += frames->items[i] == NULL;
    if (options->fps.count > 1 && options->fps.count != groups)
        return cli_fail_usage(options->verb, "--fps is given %zu times, --frames %zu times; expected one for all or one each",
                              options->fps.count, groups);
    if (options->fps.count && !groups)
        return cli_fail_usage(options->verb, "--fps says how many of --frames are a second; a file knows (--take-fps: how many are taken)");
    int code = CLI_OK;
    for (size_t i = 0, group = 0; i < frames->count && code == CLI_OK; group++) {
        double fps = 0;
        code = read_rate(options, group, &fps);
        if (code) return code;
        char name[32];
        snprintf(name, sizeof name, "--frames, video %zu", group + 1);
        fore_video *video = add(v, name, options);
        cli_pictures *pictures = &v->frames[v->count - 1];
        for (i++; i < frames->count && frames->items[i] && code == CLI_OK; i++) code = cli_pictures_add(pictures, frames->items[i]);
        video->frames = pictures->items;
        video->frame_count = pictures->count;
        video->fps = fps;
    }
    for (size_t i = 0; i < options->videos.count && code == CLI_OK; i++) code = cli_videos_add(v, options->videos.items[i], options);
    return code;
}

void cli_videos_cut(cli_videos *v, size_t count) {
    while (v->count > count) {
        v->count--;
        cli_pictures_cut(&v->frames[v->count], 0);
        free((void *)(uintptr_t)v->items[v->count].name);
    }
    if (v->count) return;
    free(v->items);
    free(v->frames);
    *v = (cli_videos){0};
}
