/* Chat templates: the public functions. A template is Jinja as transformers runs it (jinja2's ImmutableSandboxed-
 * Environment with trim_blocks, lstrip_blocks, break/continue and generation blocks). Source goes through the lexer and
 * the parsers once; a rendering walks the tree. There is nothing in it that could reach a file, and every rendering has
 * a budget of steps, memory, output and depth. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/utf8.h"
#include "text/template.h"
#include "text/template_run.h"

enum { MAX_SOURCE = 1 << 17 }; /* several times the longest published one; its tree may take two hundred times as much */

/* Newlines to "\n"; the last one goes. */
static char *normalise(fore_arena *arena, const char *source, size_t size, size_t *out_size) {
    char *copy = fore_arena_alloc(arena, size + 1, 1);
    if (!copy) return NULL;
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        if (source[i] == '\r') {
            copy[n++] = '\n';
            if (i + 1 < size && source[i + 1] == '\n') i++;
        } else {
            copy[n++] = source[i];
        }
    }
    if (n && copy[n - 1] == '\n') n--;
    *out_size = n;
    return copy;
}

fore_status fore_template_compile(const char *source, size_t size, fore_template **out, fore_error *err) {
    fore_error local;
    if (!err) err = &local;
    *out = NULL;
    if (size > MAX_SOURCE)
        return fore_fail(err, FORE_ERR_LIMIT, "template: it has %zu bytes, at most %d are read", size, MAX_SOURCE);
    size_t valid = fore_utf8_valid_prefix(source, size);
    if (valid != size) return fore_fail(err, FORE_ERR_FORMAT, "template: invalid UTF-8 at byte %zu", valid);
    fore_template *t = calloc(1, sizeof *t);
    if (!t) return fore_fail_nomem(err, "a template");
    size_t n = 0;
    char *text = normalise(&t->arena, source, size, &n);
    fore_status s = text ? fore_tparse(t, text, n, err) : fore_fail_nomem(err, "a template");
    if (s) {
        fore_template_free(t);
        return s;
    }
    *out = t;
    return FORE_OK;
}

void fore_template_free(fore_template *t) {
    if (!t) return;
    fore_arena_free(&t->arena);
    free(t);
}

/* What the names of the template mean outside of all scopes: a variable, else a function, else nothing. */
static fore_status find_globals(fore_trun *run, const fore_tdict *variables) {
    const fore_template *t = run->tmpl;
    fore_tval *globals = fore_trun_alloc(run, t->name_count + 1, sizeof *globals);
    if (!globals) return fore_trun_error(run);
    /* apply_chat_template always passes these. */
    static const char *const absent[] = {"tools", "documents"};
    for (size_t i = 0; i < t->name_count; i++) {
        const fore_tstr *name = t->names[i];
        globals[i] = fore_tdict_text(variables, name->data, name->size);
        if (globals[i].tag != FORE_T_MISSING) continue;
        fore_tval key = {.tag = FORE_T_STR, .as.str = name};
        for (size_t k = 0; k < 2; k++)
            if (fore_tis_text(key, absent[k])) globals[i] = fore_tnone();
        if (fore_tis_text(key, "add_generation_prompt")) globals[i] = fore_tbool(false);
        const fore_tfunction *f = fore_tglobal_find(name->data, name->size);
        if (f) globals[i] = (fore_tval){.tag = FORE_T_FUNCTION, .as.function = f};
    }
    run->globals = globals;
    return FORE_OK;
}

static fore_status run_template(fore_trun *run, const char *variables, size_t size, bool as_chat) {
    fore_tdict *dict;
    FORE_TRY(fore_tinput(run, variables, size, as_chat, &dict));
    FORE_TRY(find_globals(run, dict));
    fore_tscope *scope = fore_tscope_new(run, NULL);
    if (!scope) return fore_trun_error(run);
    return fore_texec(run, scope, run->tmpl->body);
}

fore_status fore_template_render_as(const fore_template *t, const char *variables, size_t size, fore_trender how,
                                    char **text, size_t *text_size, fore_error *err) {
    fore_error local = {0};
    fore_buf out = {.limit = FORE_T_MAX_OUTPUT};
    fore_trun run = {.tmpl = t, .now = how.now, .out = &out, .err = &local, .line = 1};
    run.memory_most = FORE_T_MEMORY + FORE_T_MEMORY_PER_BYTE * (size < FORE_T_MAX_OUTPUT ? size : FORE_T_MAX_OUTPUT);
    if (run.memory_most > FORE_T_MAX_MEMORY) run.memory_most = FORE_T_MAX_MEMORY;
    run.steps = how.steps ? how.steps : FORE_T_MAX_STEPS + (uint64_t)FORE_T_STEPS_PER_BYTE * size;
    *text = NULL;
    fore_status s = run_template(&run, variables, size, how.as_chat);
    if (!s) {
        *text = fore_buf_take(&out, text_size);
        if (!*text) s = fore_fail_nomem(&local, "the text of a template");
    }
    fore_buf_free(&out);
    fore_arena_free(&run.arena);
    if (s && err) *err = local;
    return s;
}

fore_status fore_template_render(const fore_template *t, const char *variables, size_t size, char **text,
                                 size_t *text_size, fore_error *err) {
    fore_trender how = {.now = (int64_t)time(NULL)};
    return fore_template_render_as(t, variables, size, how, text, text_size, err);
}
