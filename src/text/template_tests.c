/* The tests that `is` applies. */
#include <string.h>

#include "text/template_run.h"

typedef fore_status test(fore_trun *run, fore_tval v, const fore_tcall *call, bool *out);

/* Tests of the value alone. */
#define PLAIN(name, expression)                                                                     \
    static fore_status t_##name(fore_trun *run, fore_tval v, const fore_tcall *call, bool *out) {   \
        FORE_TRY(fore_tbind(run, call, #name, "", NULL));                                           \
        *out = (expression);                                                                        \
        return FORE_OK;                                                                             \
    }
PLAIN(defined, v.tag != FORE_T_UNDEFINED)
PLAIN(undefined, v.tag == FORE_T_UNDEFINED)
PLAIN(none, v.tag == FORE_T_NONE)
PLAIN(boolean, v.tag == FORE_T_BOOL)
PLAIN(true, v.tag == FORE_T_BOOL && v.as.boolean)
PLAIN(false, v.tag == FORE_T_BOOL && !v.as.boolean)
PLAIN(integer, v.tag == FORE_T_INT || v.tag == FORE_T_BIG)
PLAIN(float, v.tag == FORE_T_FLOAT)
PLAIN(number, fore_tis_number(v) || v.tag == FORE_T_BIG)
PLAIN(string, v.tag == FORE_T_STR)
PLAIN(mapping, v.tag == FORE_T_DICT)
PLAIN(iterable, fore_tis_iterable(v))
PLAIN(sequence, fore_thas_length(v) && v.tag != FORE_T_VIEW && v.tag != FORE_T_LOOP)
PLAIN(callable, v.tag == FORE_T_FUNCTION || v.tag == FORE_T_METHOD || v.tag == FORE_T_MACRO || v.tag == FORE_T_LOOP ||
                    v.tag == FORE_T_JOINER || v.tag == FORE_T_UNDEFINED)
PLAIN(escaped, v.tag == FORE_T_STR && v.as.str->markup)

/* Looks the name up in a dict: a value that cannot be a key raises. */
static fore_status is_name(fore_trun *run, fore_tval v, const fore_tcall *call, bool *is_text) {
    fore_tdict *none;
    fore_tval found;
    FORE_TRY(fore_tbind(run, call, "test", "", NULL));
    FORE_TRY(fore_tdict_new(run, &none));
    *is_text = v.tag == FORE_T_STR;
    return fore_tdict_get(run, none, v, &found);
}
static fore_status t_filter(fore_trun *run, fore_tval v, const fore_tcall *call, bool *out) {
    FORE_TRY(is_name(run, v, call, out));
    *out = *out && fore_tfilter_find(v.as.str->data, v.as.str->size);
    return FORE_OK;
}
static fore_status t_test(fore_trun *run, fore_tval v, const fore_tcall *call, bool *out) {
    FORE_TRY(is_name(run, v, call, out));
    *out = *out && fore_ttest_find(v.as.str->data, v.as.str->size);
    return FORE_OK;
}

static fore_status is_remainder(fore_trun *run, fore_tval v, fore_tval by, int64_t rest, bool *out) {
    fore_tval r;
    FORE_TRY(fore_tarith(run, FORE_OP_MOD, v, by, &r));
    return fore_tequal(run, r, fore_tint(rest), out);
}
static fore_status t_odd(fore_trun *run, fore_tval v, const fore_tcall *call, bool *out) {
    FORE_TRY(fore_tbind(run, call, "odd", "", NULL));
    return is_remainder(run, v, fore_tint(2), 1, out);
}
static fore_status t_even(fore_trun *run, fore_tval v, const fore_tcall *call, bool *out) {
    FORE_TRY(fore_tbind(run, call, "even", "", NULL));
    return is_remainder(run, v, fore_tint(2), 0, out);
}
static fore_status t_divisibleby(fore_trun *run, fore_tval v, const fore_tcall *call, bool *out) {
    fore_tval by;
    FORE_TRY(fore_tbind(run, call, "divisibleby", "num", &by));
    return is_remainder(run, v, by, 0, out);
}

static fore_status is_case(fore_trun *run, fore_tval v, const char *method, const fore_tcall *call, bool *out) {
    fore_tstr name = {.data = method, .size = 7};
    fore_tval yes;
    FORE_TRY(fore_tstring(run, v, &v));
    FORE_TRY(fore_tstr_method(&name)(run, v, call, &yes));
    *out = yes.as.boolean;
    return FORE_OK;
}
static fore_status t_lower(fore_trun *run, fore_tval v, const fore_tcall *call, bool *out) {
    return is_case(run, v, "islower", call, out);
}
static fore_status t_upper(fore_trun *run, fore_tval v, const fore_tcall *call, bool *out) {
    return is_case(run, v, "isupper", call, out);
}

static fore_status t_in(fore_trun *run, fore_tval v, const fore_tcall *call, bool *out) {
    fore_tval seq;
    FORE_TRY(fore_tbind(run, call, "in", "seq", &seq));
    return fore_tcontains(run, v, seq, out);
}

/* Python's `is`: for values that are not objects here, being equal and of one type. */
static fore_status t_sameas(fore_trun *run, fore_tval v, const fore_tcall *call, bool *out) {
    fore_tval other;
    FORE_TRY(fore_tbind(run, call, "sameas", "other", &other));
    *out = false;
    if (v.tag != other.tag) return FORE_OK;
    if (v.tag == FORE_T_NONE || v.tag == FORE_T_BOOL || v.tag == FORE_T_INT || v.tag == FORE_T_FLOAT || v.tag == FORE_T_STR)
        return fore_tequal(run, v, other, out);
    *out = v.as.list == other.as.list;
    return FORE_OK;
}

static fore_status t_eq(fore_trun *run, fore_tval v, const fore_tcall *call, bool *out) {
    fore_tval other;
    FORE_TRY(fore_tbind(run, call, "eq", "/other", &other));
    return fore_tequal(run, v, other, out);
}
static fore_status t_ne(fore_trun *run, fore_tval v, const fore_tcall *call, bool *out) {
    FORE_TRY(t_eq(run, v, call, out));
    *out = !*out;
    return FORE_OK;
}
#define ORDER(name, op, expression)                                                                 \
    static fore_status t_##name(fore_trun *run, fore_tval v, const fore_tcall *call, bool *out) {   \
        fore_tval other;                                                                            \
        int order;                                                                                  \
        FORE_TRY(fore_tbind(run, call, #name, "/other", &other));                                   \
        FORE_TRY(fore_tcompare(run, v, other, op, &order));                                         \
        *out = (expression);                                                                        \
        return FORE_OK;                                                                             \
    }
ORDER(lt, "<", order == -1)
ORDER(le, "<=", order == -1 || order == 0)
ORDER(gt, ">", order == 1)
ORDER(ge, ">=", order == 1 || order == 0)

const fore_ttest *fore_ttest_find(const char *name, size_t size) {
    static const fore_ttest tests[] = {
        {"defined", t_defined}, {"undefined", t_undefined}, {"none", t_none},         {"string", t_string},
        {"mapping", t_mapping}, {"iterable", t_iterable},   {"sequence", t_sequence}, {"true", t_true},
        {"false", t_false},     {"boolean", t_boolean},     {"integer", t_integer},   {"float", t_float},
        {"number", t_number},   {"callable", t_callable},   {"escaped", t_escaped},   {"filter", t_filter},
        {"test", t_test},       {"odd", t_odd},             {"even", t_even},         {"divisibleby", t_divisibleby},
        {"lower", t_lower},     {"upper", t_upper},         {"in", t_in},             {"sameas", t_sameas},
        {"eq", t_eq},           {"==", t_eq},               {"equalto", t_eq},        {"ne", t_ne},
        {"!=", t_ne},           {"lt", t_lt},               {"<", t_lt},              {"lessthan", t_lt},
        {"le", t_le},           {"<=", t_le},               {"gt", t_gt},             {">", t_gt},
        {"greaterthan", t_gt},  {"ge", t_ge},               {">=", t_ge},
    };
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        if (strlen(tests[i].name) == size && memcmp(tests[i].name, name, size) == 0) return &tests[i];
    return NULL;
}
