/* The vision tower: patches of one picture (or of the frames of one grid) in, one row per merged patch out.
 * References: transformers modeling_qwen3_5.py, Qwen3_5VisionModel.forward; modeling_qwen3_vl.py for deepstack;
 * modeling_qwen2_5_vl.py for windows. */
#ifndef FORE_MODEL_TOWER_H
#define FORE_MODEL_TOWER_H

#include "model/linear.h"
#include "model/trunk.h"

/* patches [t*h*w, 3*temporal*side*side] in merge order; rows [t*h*w/merge^2, fore_picture_columns]: what is spliced, then
 * the deepstack parts. Takes its own scratch memory. Every row is a pure
 * function of its picture: pictures never see each other. FORE_ERR_CANCELLED when progress says so. */
fore_status fore_tower_forward(const fore_engine *engine, const fore_network *network, const float *patches, const int grid[3],
                               float *rows, fore_progress progress, void *user, fore_tap tap, void *tap_user, fore_error *err);

#endif
