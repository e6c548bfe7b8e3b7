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

	if (ret->exact || search_version_text(img, text, sizeof text) < 0)
		return false;
	snprintf(ret->text, sizeof ret->text, "%s", text);
	ret->version = version_parse(text);
	return true;
}
