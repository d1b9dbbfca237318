/* The variables of a rendering: JSON to values, and, for a chat, what transformers' apply_chat_template does to messages
 * (utils/chat_template_utils.py: _normalize_chat_messages, _alias_reasoning_fields): null members are dropped, and
 * reasoning under any of its three names is given as `reasoning_content` and `thinking`.
 * cJSON keeps numbers as doubles; their spellings are read from the text again, in the same order. */
#include <string.h>

#include "base/json.h"
#include "text/template_run.h"

typedef struct spelling {
    const char *text; /* where the search for the next number goes on */
    const char *end;
} spelling;

/* The next number outside of strings. */
static void next_number(spelling *s, const char **number, size_t *size) {
    const char *p = s->text;
    while (p < s->end && !(*p == '-' || (*p >= '0' && *p <= '9'))) {
        if (*p == '"')
            for (p++; p < s->end && *p != '"'; p++)
                if (*p == '\\') p++;
        p++;
    }
    *number = p;
    while (p < s->end && ((*p >= '0' && *p <= '9') || *p == '-' || *p == '+' || *p == '.' || *p == 'e' || *p == 'E')) p++;
    *size = (size_t)(p - *number);
    s->text = p;
}

static fore_status convert(fore_trun *run, const cJSON *j, spelling *s, fore_tval *out) {
    FORE_TRY(fore_tspend(run, 0));
    if (cJSON_IsString(j)) return fore_tstr_copy(run, j->valuestring, strlen(j->valuestring), out);
    if (cJSON_IsNumber(j)) {
        const char *number;
        size_t size;
        next_number(s, &number, &size);
        return fore_tnumber(run, number, size, out);
    }
    if (cJSON_IsArray(j)) {
        fore_tvec items = {0};
        for (const cJSON *i = j->child; i; i = i->next) {
            fore_tval v;
            FORE_TRY(convert(run, i, s, &v));
            FORE_TRY(fore_tvec_push(run, &items, v));
        }
        return fore_tlist_wrap(run, FORE_T_LIST, items.items, items.count, out);
    }
    if (cJSON_IsObject(j)) {
        fore_tdict *dict;
        FORE_TRY(fore_tdict_new(run, &dict));
        for (const cJSON *i = j->child; i; i = i->next) {
            fore_tval key, value;
            FORE_TRY(fore_tstr_copy(run, i->string, strlen(i->string), &key));
            FORE_TRY(convert(run, i, s, &value));
            FORE_TRY(fore_tdict_set(run, dict, key, value));
        }
        *out = (fore_tval){.tag = FORE_T_DICT, .as.dict = dict};
        return FORE_OK;
    }
    *out = cJSON_IsBool(j) ? fore_tbool(cJSON_IsTrue(j)) : fore_tnone();
    return FORE_OK;
}

static fore_status set_text(fore_trun *run, fore_tdict *dict, const char *key, fore_tval v) {
    fore_tval name;
    FORE_TRY(fore_tstr_view(run, key, strlen(key), &name));
    return fore_tdict_set(run, dict, name, v);
}

static fore_status prepare_message(fore_trun *run, fore_tval *message) {
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    const fore_tdict *from = message->as.dict;
    fore_tval reasoning = {.tag = FORE_T_MISSING};
    for (int i = 0; i < 3 && (reasoning.tag == FORE_T_MISSING || reasoning.tag == FORE_T_NONE); i++)
        reasoning = fore_tdict_text(from, names[i], strlen(names[i]));
    bool has = reasoning.tag != FORE_T_MISSING && reasoning.tag != FORE_T_NONE;
    fore_tdict *to;
    FORE_TRY(fore_tdict_new(run, &to));
    if (has) FORE_TRY(set_text(run, to, "thinking", reasoning));
    for (size_t i = 0; i < from->count; i++)
        if (from->pairs[i].value.tag != FORE_T_NONE) FORE_TRY(fore_tdict_set(run, to, from->pairs[i].key, from->pairs[i].value));
    if (has) FORE_TRY(set_text(run, to, "reasoning_content", reasoning));
    message->as.dict = to;
    return FORE_OK;
}

static fore_status prepare(fore_trun *run, fore_tdict *variables) {
    fore_tval messages = fore_tdict_text(variables, "messages", 8);
    if (messages.tag == FORE_T_LIST) {
        for (size_t i = 0; i < messages.as.list->count; i++) {
            if (messages.as.list->items[i].tag != FORE_T_DICT)
                return fore_fail(run->err, FORE_ERR_FORMAT, "template: message %zu: expected an object, found %s", i,
                                 fore_ttype_name(messages.as.list->items[i]));
            FORE_TRY(prepare_message(run, &messages.as.list->items[i]));
        }
    }
    return FORE_OK;
}

fore_status fore_tinput(fore_trun *run, const char *json, size_t size, bool as_chat, fore_tdict **out) {
    cJSON *tree;
    FORE_TRY(fore_json_parse(json, size, "template variables", &tree, run->err));
    fore_tval v;
    fore_status s = FORE_OK;
    spelling numbers = {.text = json, .end = json + size};
    if (!cJSON_IsObject(tree)) {
        s = fore_fail(run->err, FORE_ERR_FORMAT, "template variables: expected a JSON object");
    } else {
        s = convert(run, tree, &numbers, &v);
    }
    cJSON_Delete(tree);
    if (s) return s;
    *out = v.as.dict;
    return as_chat ? prepare(run, v.as.dict) : FORE_OK;
}
