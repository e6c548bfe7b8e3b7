/* The proof that a layout fits a process, and what opening a runtime shares with it. */
#ifndef PYTHON_PROVE_H
#define PYTHON_PROVE_H

#include "python/py.h"

/* What a failed proof says; a later stage is a nearer miss. */
enum proof_stage { PROOF_NOTHING, PROOF_INTERP, PROOF_THREAD, PROOF_TYPE, PROOF_VERSION, PROOF_FRAME, PROOF_DONE };
struct proof {
	int stage;
	char why[120];
	bool fault;       /* what should show it was not captured */
	bool lost;        /* it fails, and memory was asked for that the file should hold and does not */
	bool damaged;     /* types and sys.hexversion agree, but no frame leads to a code object, or there is none and no importlib: if no
			     other layout fits, this does */
	const char *half; /* all that speaks against it: its interpreter has no such thing; NULL */
	uint8_t phase;    /* where half is set */
	uint32_t version; /* what sys.hexversion said, when that is what does not fit */
};

/* What is known of the version from outside of the structures; 0: nothing. */
struct known_version {
	uint32_t version;    /* PY_VERSION_HEX */
	bool exact;          /* false: major and minor only */
	bool forced;         /* by the user: whatever the process says */
	char text[32];
	const char *by;      /* what says so, where that is not the user; NULL */
};

/*
 * py->img, layout and interp_head (and runtime where known) are set: is this a CPython whose structures lie so?  Fills types, version
 * and version_text.  any_minor: the layout may belong to another minor version (it was given by hand or by the process itself).
 * 0, or ERR_CORRUPT with ret saying what did not fit.  *left: how many entries of dictionaries types may be looked for in; counted off.
 */
int py_prove(struct py *py, const struct known_version *known, bool any_minor, uint64_t *left, struct proof *ret) MUST_CHECK;

/* Do the codes of frames have names, files and lines that can be right?  False where most of them have not. */
bool py_codes_are_sane(const struct py *py);

/* Where an interpreter is in its life that has not all that a running one has. */
uint8_t /* enum py_phase */ py_phase(const struct py *py, addr_t interp);

/* Types by identity (types.c): those that builtins names and those that importlib's functions show. */
int types_find(struct py *py, addr_t interp, uint64_t *left, struct proof *ret) MUST_CHECK;

/* sys.modules' entry's dictionary of an interpreter; ERR_ABSENT. */
int py_module_dict(const struct py *py, addr_t interp, const char *name, addr_t *ret) MUST_CHECK;
int py_module_dict_within(const struct py *py, addr_t interp, const char *name, uint64_t *left, addr_t *ret) MUST_CHECK; /* as dict_find_within */

/* Does the image say that it should have addr and has not? */
bool py_is_lost(const struct py *py, addr_t addr);

/* "3.12.1", "3.14.0rc2" of a PY_VERSION_HEX, and back (0 where it is none). */
void version_format(uint32_t version, char *ret, size_t room);
uint32_t version_parse(const char *text);

#endif
