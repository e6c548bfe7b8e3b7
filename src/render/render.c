/* The table of renderers.  A new one is a file, its declaration in forms.h and a row here. */
#include "render/render.h"

#include <string.h>

#include "render/forms.h"

static const struct renderer text = { "text", ".txt", render_text, NULL, false };
static const struct renderer json = { "json", ".json", render_json, NULL, false };
static const struct renderer svg = { "svg", ".svg", render_svg, render_svg_thread, true };

const struct renderer *const renderers[] = { &text, &json, &svg, NULL };

const struct renderer *renderer_find(const char *name)
{
	for (size_t i = 0; renderers[i]; i++)
		if (strcmp(renderers[i]->name, name) == 0)
			return renderers[i];
	return NULL;
}

const struct renderer *renderer_for_file(const char *path)
{
	struct str p = str_of(path);
	for (size_t i = 0; renderers[i]; i++)
		if (str_ends(str_base(p), renderers[i]->suffix) && str_base(p).len > strlen(renderers[i]->suffix))
			return renderers[i];
	return NULL;
}
