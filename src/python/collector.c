/* The collector's lists: Modules/gcmodule.c, Python/gc.c from 3.13 on; flags in the links: Include/internal/pycore_gc.h. */
#include "python/collector.h"

#include "python/prove.h"

static int32_t signed_at(const uint8_t *b)
{
	return (int32_t)((uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24);
}

/*
 * x86's instruction at b[i] that compares four bytes of memory with 0, or sets them to a constant: where they lie, and to what.  i386 reaches
 * its data from a register that holds `base`.
 */
static bool takes_word(const uint8_t *b, size_t i, addr_t at, bool wide, unsigned reg, addr_t base, bool *sets, int32_t *value, addr_t *ret)
{
	enum { CMP = 0x83, MOV = 0xc7, NO_REGISTER = 5 };
	*sets = b[i] == MOV;
	if (b[i] != CMP && b[i] != MOV)
		return false;
	const unsigned kind = *sets ? 0 : 7, size = *sets ? 10 : 7; /* of the opcode's second part; bytes of the instruction */
	const addr_t disp = (addr_t)(int64_t)signed_at(b + i + 2);
	if (b[i + 1] == (kind << 3 | NO_REGISTER))
		*ret = wide ? at + i + size + disp : disp & UINT32_MAX;
	else if (!wide && base && b[i + 1] == (0x80 | kind << 3 | reg))
		*ret = (base + disp) & UINT32_MAX;
	else
		return false;
	*value = *sets ? signed_at(b + i + 6) : b[i + 6];
	return true;
}

/* PyGC_Collect is exported, and is (Modules/gcmodule.c of 2.7 to 3.6): if (collecting) n = 0; else { collecting = 1; ...; collecting = 0; }. */
int collector_at_work(const struct py *py, addr_t code, addr_t *ret)
{
	enum { LOOKED_AT = 192, LONGEST = 10, I386 = 3, X86_64 = 62, CALL = 0xe8, ADD = 0x81 };
	const bool wide = py->layout.abi.width == 8;
	uint8_t b[LOOKED_AT];
	addr_t asked = 0, at, base = 0;
	unsigned reg = 0;
	bool sets, begun = false;
	int32_t value;
	if (py->layout.abi.machine != (wide ? X86_64 : I386))
		return ERR_ABSENT;
	const size_t n = image_read_some(py->img, code, b, sizeof b);
	for (size_t i = 0; i + LONGEST <= n; i++) {
		/* call of what gives its return address; add of the distance to the data */
		if (!wide && i >= 5 && b[i - 5] == CALL && b[i] == ADD && (b[i + 1] & 0xf8) == 0xc0) {
			reg = b[i + 1] & 7;
			base = (code + i + (addr_t)(int64_t)signed_at(b + i + 2)) & UINT32_MAX;
		}
		if (!takes_word(b, i, code, wide, reg, base, &sets, &value, &at))
			continue;
		if (!sets && !asked && value == 0)
			asked = at;
		else if (sets && asked && at == asked && value == 1)
			begun = true;
		else if (sets && begun && at == asked && value == 0) {
			*ret = at;
			return 0;
		}
	}
	return ERR_ABSENT;
}

/* Up to 3.6 only a pointer to the first generation is to be had by name; whether it is at work where local names are, else by code. */
static int by_symbols(const struct py *py, struct py_collector *ret)
{
	addr_t at, first;
	uint64_t collecting;
	if (HAS(py, PyInterp, gc) || HAS(py, PyRuntime, gc) || !py->mods || modules_symbol(py->mods, "_PyGC_generation0", &at, NULL, NULL) < 0 ||
	    image_read_ptr(py->img, at, &first) < 0)
		return ERR_ABSENT;
	for (unsigned i = 0; i < 3; i++)
		ret->list[i] = first + i * (addr_t)py->layout.size[S_PyGCGeneration];
	const struct module *m = modules_at(py->mods, at);
	addr_t code;
	if (((modules_symbol(py->mods, "collecting", &at, NULL, NULL) == 0 && modules_at(py->mods, at) == m) ||
	     (m && modules_symbol_of(py->mods, m, "PyGC_Collect", &code) == 0 && collector_at_work(py, code, &at) == 0 && modules_at(py->mods, at) == m)) &&
	    image_read_uint(py->img, at, 4, &collecting) == 0) {
		ret->known = true;
		ret->collecting = collecting != 0;
	}
	return 0;
}

int py_collector_find(const struct py *py, addr_t interp, struct py_collector *ret)
{
	struct py_collector c = { 0 };
	uint64_t collecting;
	addr_t first;
	int rc = HAS(py, PyInterp, gc) ? READ(py, interp, PyInterp, gc, &c.state) : HAS(py, PyRuntime, gc) ? READ(py, py->runtime, PyRuntime, gc, &c.state) : ERR_ABSENT;
	if (rc < 0) {
		rc = by_symbols(py, &c);
		if (rc == 0)
			*ret = c;
		return rc;
	}
	if (READ(py, c.state, PyGC, collecting, &collecting) == 0) {
		c.known = true;
		c.collecting = (uint32_t)collecting != 0;
	}
	/* Free-threaded builds have the fields, but keep no lists: Python/gc_free_threading.c. */
	if (HAS(py, PyObject, ob_tid))
		;
	else if ((READ(py, c.state, PyGC, generation0, &first) == 0 && first) || READ(py, c.state, PyGC, generations, &first) == 0)
		for (unsigned i = 0; i < 3; i++)
			c.list[i] = first + i * (addr_t)py->layout.size[S_PyGCGeneration];
	if (c.list[0] && READ(py, c.state, PyGC, permanent, &first) == 0)
		c.list[3] = first;
	*ret = c;
	return 0;
}

struct collector_walk collector_list(const struct py *py, addr_t head)
{
	return (struct collector_walk){ .py = py, .head = head, .at = 0, .lap = 1, .ended = !head || !HAS(py, PyGCHead, next) };
}

/* A link without its flags. */
static int link_of(const struct py *py, addr_t head, addr_t *ret)
{
	uint64_t next;
	int rc = READ(py, head, PyGCHead, next, &next);
	if (rc < 0)
		return rc;
	*ret = TRAIT(py, gc_collecting) > 0 ? next & ~(uint64_t)3 : next;
	return 0;
}

int collector_after(const struct py *py, addr_t object, addr_t *ret)
{
	return HAS(py, PyGCHead, next) ? link_of(py, object - py->layout.size[S_PyGCHead], ret) : ERR_ABSENT;
}

int collector_next(struct collector_walk *w, struct collected *ret)
{
	const struct py *py = w->py;
	uint64_t prev = 0;
	if (w->ended)
		return 0;
	int rc = w->n ? 0 : link_of(py, w->head, &w->at);
	if (rc == 0 && w->at == w->head) {
		w->ended = true;
		return 0;
	}
	if (rc == 0 && w->n == COLLECTOR_MAX)
		rc = ERR_LIMIT;
	if (rc == 0 && (w->at % py->layout.abi.width || w->at == w->mark))
		rc = ERR_CORRUPT;
	addr_t next;
	if (rc == 0)
		rc = link_of(py, w->at, &next);
	if (rc == 0)
		rc = READ(py, w->at, PyGCHead, prev, &prev);
	if (rc < 0) {
		w->ended = true;
		return rc;
	}
	*ret = (struct collected){ w->at, w->at + py->layout.size[S_PyGCHead], TRAIT(py, gc_collecting) > 0 && prev & (uint64_t)TRAIT(py, gc_collecting) };
	if (++w->n == w->lap) { /* Brent's cycle */
		w->mark = w->at;
		w->lap *= 2;
	}
	w->at = next;
	return 1;
}

int collector_bad_type(const struct py *py, struct collector_types *seen, addr_t obj, addr_t *ret)
{
	addr_t type;
	int rc = READ(py, obj, PyObject, ob_type, &type);
	if (rc < 0)
		return rc;
	addr_t *slot = &seen->good[(type >> 4) * 0x9e3779b1u >> 8 & 1023];
	if (*slot == type && type)
		return 0;
	struct object o;
	rc = object_at(py, obj, &o);
	if (rc == 0) {
		*slot = type;
		return 0;
	}
	/* A type that was not captured is none that is wrong. */
	if (rc == ERR_FAULT && (py_is_lost(py, type) || image_mapping_at(py->img, type) || image_segment_at(py->img, type)))
		return 0;
	if (rc != ERR_FAULT && rc != ERR_CORRUPT)
		return 0;
	*ret = type;
	return 1;
}
