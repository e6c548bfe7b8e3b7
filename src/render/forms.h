/* The renderers behind the table in render.c. */
#ifndef RENDER_FORMS_H
#define RENDER_FORMS_H

#include "render/render.h"

int render_text(const struct report *r, const struct render_options *opt, FILE *out);
int render_json(const struct report *r, const struct render_options *opt, FILE *out);
int render_svg(const struct report *r, const struct render_options *opt, FILE *out);
int render_svg_thread(const struct report *r, size_t thread, const struct render_options *opt, FILE *out);

#endif
