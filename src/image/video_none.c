/* Video files without FFmpeg's libraries: they are refused by name. */
#include "image/video.h"

bool fore_video_files(void) { return false; }

fore_status fore_video_reader_open(const fore_video *video, const char *name, const fore_limits *limits, fore_video_reader **out,
                                   size_t *total, double *fps, fore_error *err) {
    (void)video, (void)limits;
    *out = NULL;
    *total = 0;
    *fps = 0;
    return fore_fail(err, FORE_ERR_UNSUPPORTED,
                     "%s: this build reads no video files (FFmpeg's libraries were not there when it was made); give the frames as pictures, "
                     "on the command line with --frames and --fps",
                     name);
}

fore_status fore_video_reader_next(fore_video_reader *reader, fore_pixels *out, fore_error *err) {
    (void)reader, (void)out;
    return fore_fail(err, FORE_ERR_BUG, "video: there is no reader");
}

void fore_video_reader_close(fore_video_reader *reader) { (void)reader; }
