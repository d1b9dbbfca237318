/* Describes a picture: example MODEL_FOLDER PICTURE [QUESTION]
 * cc example.c $(pkg-config --cflags --libs foresight) */
#include <foresight.h>
#include <stdio.h>

static int fail(const fore_error *err) {
    fprintf(stderr, "example: %s\n", err->text);
    return 1;
}

int main(int argc, char **argv) {
    static char picture[8 << 20], messages[4096]; /* the question below needs no escaping as JSON */
    FILE *file = argc < 3 ? NULL : fopen(argv[2], "rb");
    if (file == NULL) return fputs("usage: example MODEL_FOLDER PICTURE [QUESTION]\n", stderr), 2;
    fore_image image = {.data = picture, .size = fread(picture, 1, sizeof picture, file), .name = argv[2]};
    fclose(file);
    snprintf(messages, sizeof messages,
             "[{\"role\": \"user\", \"content\": [{\"type\": \"image\"}, {\"type\": \"text\", \"text\": \"%s\"}]}]",
             argc > 3 ? argv[3] : "Describe the picture.");

    fore_error err;
    fore_model *model;
    fore_session *session;
    if (fore_model_open(argv[1], NULL, &model, &err) != FORE_OK) return fail(&err);
    if (fore_session_new(model, NULL, &session, &err) != FORE_OK) return fail(&err);

    fore_request request;
    fore_request_init(&request, model);
    request.messages = messages;
    request.options = "{\"enable_thinking\": false}";
    request.images = &image;
    request.image_count = 1;
    if (fore_session_begin(session, &request, &err) != FORE_OK) return fail(&err);

    fore_chunk chunk = {0};
    while (chunk.finish == FORE_FINISH_NONE) {
        if (fore_session_next(session, &chunk, &err) != FORE_OK) return fail(&err);
        fwrite(chunk.text, 1, chunk.size, stdout);
    }
    putchar('\n');
    fore_session_free(session);
    fore_model_close(model);
    return 0;
}
