/* Memory runs out at every single allocation of compiling and rendering a template: each time it fails with
 * FORE_ERR_NOMEM, says so, and leaves nothing behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "foresight.h"
#include "support/refuse_each.h"

static const char source[] =
    "{% macro m(a, b='x') %}{{ a|upper }}{{ b }}{{ caller() }}{% endmacro %}{% set ns = namespace(s='') %}"
    "{% for i in range(40) %}{% set ns.s = ns.s ~ i ~ 'some more text to make it long' * 30 %}{% endfor %}"
    "{% call m(s, b=f) %}{{ l|tojson(indent=2) }}{% endcall %}{% set t %}{{ ns.s|length }}{% endset %}{{ t }}"
    "{{ '%5.2f|%s' % (f, [1, 'a']) }}{{ '{:>9}'.format(s) }}{{ s.split(' ')|sort|join('-') }}{{ l|map('string')|list }}"
    "{{ strftime_now('%Y') }}{{ 'a b'|title|indent|e|urlencode }}{{ (x.y is defined) if x else s[::-1] }}";
static const char variables[] = "{\"s\": \"b a c\", \"f\": 2.5, \"l\": [1, {\"k\": null}, \"\\u00e9\"], \"messages\": []}";

static fore_status run(void *user, fore_error *err) {
    size_t *length = user;
    fore_template *t;
    char *text = NULL;
    fore_status s = fore_template_compile(source, strlen(source), &t, err);
    if (s) return s;
    s = fore_template_render(t, variables, strlen(variables), &text, length, err);
    fore_free(text);
    fore_template_free(t);
    return s;
}

static void test_every_allocation(void **state) {
    (void)state;
    size_t length = 0;
    refuse_each(&(refusals){.what = "a template", .act = run, .user = &length, .least = 50});
    assert_true(length > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
