/*
 * Dictionaries since 3.6 (Objects/dictobject.c, "compact dict"): a keys object with an index table, which a reader does
 * not need, and entries in order of insertion; split ones keep their values in an array of their own.  2.7's have one
 * table of entries, in order of hashes, those without a value being free or deleted.
 */
#include "python/object.h"

enum {
	SHAPE_GENERAL,  /* entries of hash, key, value */
	SHAPE_UNICODE,  /* 3.11+: key and value */
	FIND_MAX = 1000000, /* entries that a search by name looks at */
};

/* dk_kind, 3.11+ (enum DictKeysKind). */
enum { KIND_GENERAL = 0, KIND_UNICODE = 1, KIND_SPLIT = 2 };

/* Bytes of the index table, and how many entries there could be at most. */
static int index_size(const struct py *py, addr_t keys, uint64_t *bytes, uint64_t *room)
{
	uint64_t size, log2, log2_bytes;
	int rc;
	if (TRAIT(py, dict_shape) == DICT_SHAPE_LOG2) {
		if ((rc = READ(py, keys, PyDictKeys, dk_log2_size, &log2)) < 0 ||
		    (rc = READ(py, keys, PyDictKeys, dk_log2_index_bytes, &log2_bytes)) < 0)
			return rc;
		/* 1 to 8 bytes an index; the empty keys say 0 and have 8 (3.11+: dk_log2_index_bytes 3). */
		if (log2 > 40 || log2_bytes < log2 || log2_bytes > log2 + 3)
			return ERR_CORRUPT;
		*bytes = UINT64_C(1) << log2_bytes;
		*room = UINT64_C(1) << log2;
		return 0;
	}
	if (TRAIT(py, dict_shape) != DICT_SHAPE_SIZE)
		return ERR_UNSUPPORTED;
	rc = READ(py, keys, PyDictKeys, dk_size, &size);
	if (rc < 0)
		return rc;
	if (size == 0 || size > UINT64_C(1) << 40 || size & (size - 1))
		return ERR_CORRUPT;
	*bytes = size * (size <= 0xff ? 1 : size <= 0xffff ? 2 : size <= 0xffffffff ? 4 : 8);
	*room = size;
	return 0;
}

static int begin(const struct py *py, addr_t keys, addr_t values, struct dict_walk *ret)
{
	struct dict_walk w = { .py = py, .keys = keys, .shape = SHAPE_GENERAL };
	uint64_t bytes, room, kind, at, capacity;
	int rc;
	if ((rc = index_size(py, keys, &bytes, &room)) < 0 || (rc = READ(py, keys, PyDictKeys, dk_nentries, &w.n)) < 0 ||
	    (rc = READ(py, keys, PyDictKeys, dk_indices, &at)) < 0)
		return rc;
	if (w.n > room || !add_fits(at, bytes, &w.entries)) /* a negative count too */
		return ERR_CORRUPT;
	if (HAS(py, PyDictKeys, dk_kind)) {
		rc = READ(py, keys, PyDictKeys, dk_kind, &kind);
		if (rc < 0)
			return rc;
		if (kind > KIND_SPLIT || (values && kind != KIND_SPLIT))
			return ERR_CORRUPT;
		if (kind != KIND_GENERAL)
			w.shape = SHAPE_UNICODE;
	}
	if (values) {
		w.values = values;
		if (HAS(py, PyDictValues, values)) {
			rc = READ(py, values, PyDictValues, values, &w.values);
			if (rc < 0)
				return rc;
		}
		if (HAS(py, PyDictValues, capacity)) {
			rc = READ(py, values, PyDictValues, capacity, &capacity);
			if (rc < 0)
				return rc;
			/* Keys that grew after this instance was made: what it has no room for it does not have. */
			if (w.n > capacity)
				w.n = capacity;
		}
	}
	*ret = w;
	return 0;
}

/* 2.7: ma_mask + 1 entries at ma_table (Include/dictobject.h). */
static int begin_table(const struct py *py, addr_t dict, struct dict_walk *ret)
{
	struct dict_walk w = { .py = py, .shape = SHAPE_GENERAL };
	uint64_t mask;
	int rc;
	if ((rc = READ(py, dict, PyDict, ma_mask, &mask)) < 0 || (rc = READ(py, dict, PyDict, ma_table, &w.entries)) < 0)
		return rc;
	if (mask >= UINT64_C(1) << 40 || mask & (mask + 1) || !w.entries) /* a negative mask too */
		return ERR_CORRUPT;
	w.n = mask + 1;
	*ret = w;
	return 0;
}

int dict_begin_values(const struct py *py, addr_t keys, addr_t values, struct dict_walk *ret)
{
	return values ? begin(py, keys, values, ret) : ERR_CORRUPT;
}

int dict_begin(const struct py *py, addr_t dict, struct dict_walk *ret)
{
	struct object o;
	addr_t keys, values;
	int rc = object_at(py, dict, &o);
	if (rc < 0)
		return rc;
	if (o.kind != O_DICT)
		return ERR_CORRUPT;
	if (TRAIT(py, dict_shape) == DICT_SHAPE_MASK)
		return begin_table(py, dict, ret);
	if ((rc = READ(py, dict, PyDict, ma_keys, &keys)) < 0 || (rc = READ(py, dict, PyDict, ma_values, &values)) < 0)
		return rc;
	return begin(py, keys, values, ret);
}

int dict_next(struct dict_walk *w, addr_t *key, addr_t *value)
{
	const struct py *py = w->py;
	enum py_struct entry = w->shape == SHAPE_UNICODE ? S_PyDictUnicodeEntry : S_PyDictKeyEntry;
	for (; w->i < w->n; w->i++) {
		if (w->i >= DICT_MAX_ENTRIES)
			return ERR_LIMIT;
		addr_t at = w->entries + w->i * py->layout.size[entry], k, v;
		int rc = w->shape == SHAPE_UNICODE ? READ(py, at, PyDictUnicodeEntry, me_key, &k) :
						     READ(py, at, PyDictKeyEntry, me_key, &k);
		if (rc < 0)
			return rc;
		if (w->values)
			rc = image_read_ptr(py->img, w->values + w->i * py->layout.abi.width, &v);
		else
			rc = w->shape == SHAPE_UNICODE ? READ(py, at, PyDictUnicodeEntry, me_value, &v) :
							 READ(py, at, PyDictKeyEntry, me_value, &v);
		if (rc < 0)
			return rc;
		if (k == 0 || v == 0) /* deleted, or an attribute that this instance has not */
			continue;
		w->i++;
		*key = k;
		*value = v;
		return 1;
	}
	return 0;
}

/* Does the key hold this name?  A key that cannot be read is not it. */
static bool key_is(const struct py *py, addr_t key, const char *name)
{
	struct object o;
	if (object_at(py, key, &o) < 0)
		return false;
	if (o.kind == O_STR)
		return object_text_is(&o, name) == 1;
	/* 2.7: names are bytes. */
	return o.kind == O_BYTES && TRAIT(py, str_model) == STR_MODEL_WIDE && object_bytes_is(&o, name) == 1;
}

void dict_most(struct dict_walk *w, uint64_t n)
{
	if (w->n - w->i > n)
		w->n = w->i + n;
}

int dict_find_within(struct dict_walk *w, const char *key, uint64_t *left, addr_t *ret)
{
	addr_t k, v;
	int rc;
	bool found = false;
	const uint64_t first = w->i, end = w->n;
	dict_most(w, *left < FIND_MAX ? *left : FIND_MAX);
	const bool cut = w->n < end;
	while (!found && (rc = dict_next(w, &k, &v)) == 1)
		found = key_is(w->py, k, key);
	w->n = end;
	*left -= w->i - first;
	if (!found)
		return rc < 0 ? rc : cut ? ERR_LIMIT : ERR_ABSENT;
	*ret = v;
	return 0;
}

int dict_find(struct dict_walk *w, const char *key, addr_t *ret)
{
	uint64_t left = UINT64_MAX;
	return dict_find_within(w, key, &left, ret);
}

int dict_get_all(const struct py *py, addr_t dict, const char *const *keys, size_t n, uint64_t *entries, addr_t *ret)
{
	struct dict_walk w;
	int rc = dict_begin(py, dict, &w);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < n; i++)
		ret[i] = 0;
	const uint64_t all = w.n;
	dict_most(&w, *entries < FIND_MAX ? *entries : FIND_MAX);
	const bool cut = w.n < all;
	size_t left = n;
	addr_t k, v;
	while (left && (rc = dict_next(&w, &k, &v)) == 1) {
		for (size_t i = 0; i < n; i++) {
			if (!ret[i] && key_is(py, k, keys[i])) {
				ret[i] = v;
				left--;
				break;
			}
		}
	}
	*entries -= w.i;
	return rc < 0 ? rc : left && cut ? ERR_LIMIT : (int)(n - left);
}

int dict_get_within(const struct py *py, addr_t dict, const char *key, uint64_t *left, addr_t *ret)
{
	struct dict_walk w;
	int rc = dict_begin(py, dict, &w);
	return rc < 0 ? rc : dict_find_within(&w, key, left, ret);
}

int dict_get(const struct py *py, addr_t dict, const char *key, addr_t *ret)
{
	uint64_t left = UINT64_MAX;
	return dict_get_within(py, dict, key, &left, ret);
}
