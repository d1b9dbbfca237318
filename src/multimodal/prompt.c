/* Prompt expansion; see prompt.h. */
#include "multimodal/prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fore_status fore_prompt_expand(const int32_t *ids, size_t n, fore_pad pad, const size_t *pads, size_t images, size_t limit,
                               int32_t **out, size_t *out_n, fore_error *err) {
    *out = NULL;
    *out_n = 0;
    size_t found = 0, total = 0;
    for (size_t i = 0; i < n; i++) found += pad.token_id >= 0 && ids[i] == pad.token_id;
    for (size_t i = 0; i < images; i++)
        if (__builtin_add_overflow(total, pads[i], &total)) return fore_fail(err, FORE_ERR_LIMIT, "prompt: the pads of the %ss overflow", pad.noun);
    bool expanded = found == total;
    if (!expanded && found != images) {
        if (images == 0)
            return fore_fail(err, FORE_ERR_INVALID,
                             "prompt: it places %zu %s%s, none was given; give one or take its pad out of the text", found, pad.noun,
                             found == 1 ? "" : "s");
        if (found > images)
            return fore_fail(err, FORE_ERR_INVALID, "prompt: it places %zu %ss, only %zu given (%zu pads when expanded)", found, pad.noun, images, total);
        return fore_fail(err, FORE_ERR_INVALID, "prompt: %zu %s%s given, the prompt places only %zu; the template may not know %ss", images,
                         pad.noun, images == 1 ? "" : "s", found, pad.noun);
    }
    size_t length = expanded ? n : n - images + total; /* n >= images: each has its pad */
    if (limit && length > limit)
        return fore_fail(err, FORE_ERR_LIMIT, "prompt: %zu tokens (%zu of %ss), the context has %zu; ask for a larger context, or smaller or fewer %ss", length,
                         total, pad.noun, limit, pad.noun);
    int32_t *to = malloc((length ? length : 1) * sizeof *to);
    if (!to) return fore_fail_nomem(err, "the expanded prompt");
    size_t at = 0, image = 0;
    for (size_t i = 0; i < n; i++) {
        if (expanded || pad.token_id < 0 || ids[i] != pad.token_id) {
            to[at++] = ids[i];
            continue;
        }
        for (size_t k = 0; k < pads[image]; k++) to[at++] = pad.token_id;
        image++;
    }
    *out = to;
    *out_n = length;
    return FORE_OK;
}

/* Appends "<T seconds>" with one decimal and a point, whatever the program's locale. */
static fore_status put_time(fore_buf *out, double seconds) {
    char number[352];
    int length = snprintf(number, sizeof number, "%.1f", seconds);
    if (length < 3) return FORE_ERR_BUG;
    size_t whole = strspn(number, "0123456789");
    const char rest[] = {'.', number[length - 1]};
    fore_status s = fore_buf_puts(out, "<");
    if (!s) s = fore_buf_append(out, number, whole);
    if (!s) s = fore_buf_append(out, rest, sizeof rest);
    return s ? s : fore_buf_puts(out, " seconds>");
}

static fore_status put_video(fore_buf *out, const fore_video_words *w, const fore_video_times *video, bool pads_alone) {
    fore_status s = FORE_OK;
    for (size_t i = 0; i < video->count && !s; i++) {
        if (!pads_alone) s = put_time(out, video->seconds[i]);
        if (!s && !pads_alone) s = fore_buf_append(out, w->start, w->start_size);
        if (!s) s = fore_buf_append(out, w->pad, w->pad_size);
        if (!s && !pads_alone) s = fore_buf_append(out, w->end, w->end_size);
    }
    return s;
}

static const char *find(const char *at, const char *end, const char *word, size_t size) {
    return at < end && size ? memmem(at, (size_t)(end - at), word, size) : NULL;
}

fore_status fore_prompt_expand_videos(const char *text, size_t size, const fore_video_words *w, const fore_video_times *videos,
                                      size_t video_count, size_t tokens, fore_video_layout layout, fore_buf *out, fore_error *err) {
    const char *end = text + size;
    size_t found = 0, steps = 0;
    for (const char *p = text; (p = find(p, end, w->pad, w->pad_size)); p += w->pad_size) found++;
    for (size_t i = 0; i < video_count; i++) steps += videos[i].count;
    bool expands = found == video_count;
    if (!expands && found != steps && found != tokens)
        return fore_fail(err, FORE_ERR_INVALID, "prompt: %zu video%s given, the prompt places %zu; %s", video_count, video_count == 1 ? "" : "s",
                         found, found < video_count ? "the template may not know videos" : "give the others or take their pads out of the text");
    fore_status s = FORE_OK;
    size_t video = 0;
    for (const char *p; expands && !s && (p = find(text, end, w->pad, w->pad_size)); video++) {
        const char *before = p, *after = p + w->pad_size;
        bool opened = (size_t)(p - text) >= w->start_size && memcmp(p - w->start_size, w->start, w->start_size) == 0;
        bool closed = (size_t)(end - after) >= w->end_size && memcmp(after, w->end, w->end_size) == 0;
        if (layout == FORE_LAYOUT_FLAT && opened && closed) {
            before -= w->start_size;
            after += w->end_size;
        }
        s = fore_buf_append(out, text, (size_t)(before - text));
        if (!s) s = put_video(out, w, &videos[video], layout == FORE_LAYOUT_BLOCK);
        text = after;
    }
    if (!s) s = fore_buf_append(out, text, (size_t)(end - text));
    return s ? fore_fail_nomem(err, "the expanded prompt") : FORE_OK;
}
