/* The orientation that metadata asks for. EXIF is a TIFF header and the entries of its first directory; XMP is XML, in
 * which the property is searched for as text. Anything malformed counts as "no orientation", since a picture is worth
 * more than its metadata. */
#include <string.h>

#include "image/formats.h"

typedef struct tiff {
    const uint8_t *data;
    size_t size;
    bool big; /* byte order */
} tiff;

static uint32_t number(const tiff *t, size_t at, int bytes) {
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++) v = v << 8 | t->data[at + (size_t)(t->big ? i : bytes - 1 - i)];
    return v;
}

int fore_exif_orientation(const uint8_t *data, size_t size) {
    enum { ORIENTATION = 0x0112, BYTE = 1, SHORT = 3, LONG = 4 };
    while (size >= 6 && !memcmp(data, "Exif\0\0", 6)) data += 6, size -= 6;
    tiff t = {.data = data, .size = size};
    if (size < 8) return -1;
    if (!memcmp(data, "MM\0*", 4))
        t.big = true;
    else if (memcmp(data, "II*\0", 4) != 0)
        return -1;
    size_t at = number(&t, 4, 4);
    if (at > size || size - at < 2) return -1;
    uint32_t entries = number(&t, at, 2);
    int orientation = -1;
    at += 2;
    for (uint32_t i = 0; i < entries && size - at >= 12; i++, at += 12) {
        if (number(&t, at, 2) != ORIENTATION || number(&t, at + 4, 4) != 1) continue;
        switch (number(&t, at + 2, 2)) {
        case BYTE: orientation = (int)number(&t, at + 8, 1); break;
        case SHORT: orientation = (int)number(&t, at + 8, 2); break;
        case LONG: orientation = (int)(number(&t, at + 8, 4) & INT32_MAX); break;
        default: break;
        }
    }
    return orientation;
}

int fore_xmp_orientation(const uint8_t *data, size_t size) {
    static const char name[] = "tiff:Orientation";
    const size_t length = sizeof name - 1;
    for (size_t at = 0; at + length + 1 < size; at++) { /* at least two bytes follow the name */
        if (data[at] != 't' || memcmp(data + at, name, length) != 0) continue;
        const uint8_t *value = data + at + length; /* ="6" or >6< */
        if (*value == '>')
            value += 1;
        else if (value[0] == '=' && value[1] == '"')
            value += 2;
        else
            continue;
        if (value < data + size && *value >= '0' && *value <= '9') return *value - '0';
    }
    return -1;
}
