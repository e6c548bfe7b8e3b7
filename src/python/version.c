/* Which version a Python may be before anything of it is read: paths of mapped files, Py_Version, text in its data. */
#include "python/version.h"

#include <stdio.h>
#include <string.h>

#include "python/search.h"

/* "libpython3.9.so.1.0", "python3.9", "libpython2.7.a": major and minor of the first such file that is mapped. */
static bool from_paths(struct image *img, struct known_version *ret)
{
	const struct mapping *list;
	size_t n = image_mappings(img, &list);
	bool sign = false;

	for (size_t i = 0; i < n; i++) {
		const uint8_t *p = list[i].path.p, *slash = NULL;
		size_t len = list[i].path.len;
		for (size_t k = 0; k < len; k++)
			if (p[k] == '/')
				slash = p + k;
		const uint8_t *base = slash ? slash + 1 : p;
		size_t left = len - (size_t)(base - p);
		if (left >= 9 && !memcmp(base, "libpython", 9))
			base += 9, left -= 9;
		else if (left >= 6 && !memcmp(base, "python", 6))
			base += 6, left -= 6;
		else
			continue;
		sign = true;
		char text[8] = "";
		memcpy(text, base, left < sizeof text - 1 ? left : sizeof text - 1);
		uint32_t version = version_parse(text);
		if (!version)
			continue;
		ret->version = version & 0xffff0000u;
		snprintf(ret->text, sizeof ret->text, "%u.%u", version >> 24, version >> 16 & 255);
		break;
	}
	return sign;
}

bool version_from_outside(struct image *img, struct modules *mods, struct known_version *ret)
{
	addr_t at;
	uint64_t size, version;
	bool sign = from_paths(img, ret);

	/* const unsigned long Py_Version (3.11 on), in .rodata. */
	if (mods && modules_symbol(mods, "Py_Version", &at, &size, NULL) == 0 && image_read_uint(img, at, 4, &version) == 0 && version >> 24 == 3) {
		sign = true;
		ret->version = (uint32_t)version;
		ret->exact = true;
		version_format((uint32_t)version, ret->text, sizeof ret->text);
	}
	return sign;
}

bool version_from_text(struct image *img, struct known_version *ret)
{
	char text[32];

	if (ret->exact || search_version_text(img, 0, UINT64_MAX, text, sizeof text) < 0)
		return false;
	snprintf(ret->text, sizeof ret->text, "%s", text);
	ret->version = version_parse(text);
	return true;
}

/* Its code and data: all of them are in one file. */
static const struct module *own_module(const struct py *py)
{
	return py->mods ? modules_at(py->mods, py->types.type ? py->types.type : py->runtime) : NULL;
}

bool version_from_own(const struct py *py, struct known_version *ret)
{
	const struct module *own = own_module(py);
	uint64_t hex;
	bool threaded;
	addr_t at;

	*ret = (struct known_version){ .exact = true };
	if (py->runtime && layout_self_version(py->img, py->runtime, &ret->version, &threaded) == 0) {
		ret->by = "its debug offsets";
	} else if (own && modules_symbol_of(py->mods, own, "Py_Version", &at) == 0 && image_read_uint(py->img, at, 4, &hex) == 0 && hex >> 24 == 3) {
		ret->version = (uint32_t)hex;
		ret->by = "Py_Version";
	} else if (own && search_version_text(py->img, own->start, own->end, ret->text, sizeof ret->text) == 0) {
		ret->version = version_parse(ret->text);
		ret->by = "the text of Py_GetVersion()";
		return ret->version != 0;
	} else {
		return false;
	}
	version_format(ret->version, ret->text, sizeof ret->text);
	return true;
}

bool version_names_debug(const struct py *py)
{
	const struct module *own = own_module(py);
	const struct str base = own ? str_base((struct str){ (const char *)own->path.p, own->path.len }) : (struct str){ 0 };
	size_t i = 0;

	/* "libpython3.13d.so.1.0", "python3.7dm", "python3.11-dbg" */
	if (str_starts(base, "libpython"))
		i = 9;
	else if (str_starts(base, "python"))
		i = 6;
	while (i && i < base.len && ((base.s[i] >= '0' && base.s[i] <= '9') || (base.s[i] == '.' && i + 1 < base.len && base.s[i + 1] >= '0' && base.s[i + 1] <= '9')))
		i++;
	return i && i < base.len && (base.s[i] == 'd' || (base.len - i >= 4 && !memcmp(base.s + i, "-dbg", 4)));
}
