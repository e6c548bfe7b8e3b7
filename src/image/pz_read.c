/*
 * Reading a .pz: its members (bgzf.c) hold an ELF core (elf_core.c, and pz_notes.c for what pysnap's own notes add); here which memory
 * damaged members took along (formats/pz.md).
 */
#include "image/pz.h"

#include <stdlib.h>
#include <string.h>

/*
 * Damaged members of which the addresses are looked up, segments that are looked at for them (seconds, where a file has millions), and
 * pieces of segments that are said to be lost: a member of 65536 bytes may be what millions of segments lead to.
 */
enum { DAMAGE_TOLD = 4096, DAMAGE_LOOKED = 1 << 28, DAMAGE_PIECES = 1 << 16 };

/* The core as its loader sees it; between it and the members, so that segments can be asked where they lie in it. */
struct pz {
	struct bytes core;
	struct bytes *payload;
	struct image *img;
	bool asking;
	uint64_t asked;
	size_t told, looked, pieces;
};

static int core_read(struct bytes *b, uint64_t off, void *buf, size_t len)
{
	struct pz *z = (struct pz *)b;
	if (!z->asking)
		return bytes_read(z->payload, off, buf, len);
	z->asking = false;
	z->asked = off;
	memset(buf, 0, len);
	return 0;
}

static void core_close(struct bytes *b)
{
	struct pz *z = (struct pz *)b;
	bytes_close(z->payload);
	free(z);
}

/* Payload [start, end) is damaged: the memory in it is lost.  Called within a read. */
static void damage_found(void *arg, uint64_t start, uint64_t end)
{
	struct pz *z = arg;
	const struct segment *s;
	size_t n = image_segments(z->img, &s);
	image_facts_mut(z->img)->damage = STR("damaged: checksums in it do not fit");
	z->looked += n + image_facts(z->img)->n_lost; /* that list is made anew */
	if (z->told++ >= DAMAGE_TOLD || z->looked > DAMAGE_LOOKED)
		return;
	struct VEC(struct lost) found = { 0 };
	for (size_t i = 0; i < n && z->pieces < DAMAGE_PIECES; i++) {
		uint8_t byte;
		if (s[i].from_file || !s[i].size)
			continue;
		/* One read with asking set comes back to core_read, which notes the place; other segments leave it set. */
		z->asking = true;
		bool ours = s[i].read(s[i].ctx, s[i].skip, &byte, 1) == 0 && !z->asking;
		z->asking = false;
		if (!ours || z->asked >= end)
			continue;
		uint64_t from = start > z->asked ? start - z->asked : 0, to = end - z->asked;
		if (to > s[i].size)
			to = s[i].size;
		if (from < to) {
			*vec_push(&found) = (struct lost){ s[i].start + from, s[i].start + to };
			z->pieces++;
		}
	}
	image_found_lost(z->img, found.p, found.n);
	vec_free(&found);
}

static int load(struct bytes *b, struct image *img, struct err *err)
{
	uint64_t file_size = b->size;
	struct bytes *payload;
	int rc = bgzf_open(b, &payload, err);
	if (rc < 0)
		return rc;
	uint32_t format = bgzf_format(payload);
	struct pz *z = xcalloc(1, sizeof *z);
	z->core = (struct bytes){ .size = payload->size, .read = core_read, .close = core_close, .name = b->name };
	z->payload = payload;
	z->img = img;
	if (image_format_elf_core.probe(&z->core))
		rc = image_format_elf_core.load(&z->core, img, err); /* the image closes z->core from here on */
	else {
		rc = err_set(err, ERR_CORRUPT, "%s is compressed, but its content is not a core", b->name);
		err_hint(err, "the core or snapshot itself; \"zcat %s | file -\" says what it is", b->name);
	}
	if (rc < 0 && format > PZ_FORMAT)
		rc = pz_too_new(b->name, format, image_facts(img)->tool, err);
	if (rc < 0) {
		(void)bgzf_detach(payload); /* b stays open, and the caller's */
		bytes_close(&z->core);
		return rc;
	}
	struct image_facts *f = image_facts_mut(img);
	f->file_size = file_size;
	/* Also where memory is whole, and only what follows it is not; where the end is there, a note that leads past it is wrong. */
	f->truncated = f->size < f->expected || bgzf_truncated(payload);
	if (f->kind == IMAGE_CORE) /* bgzip's output */
		f->compression = "gzip";
	bgzf_watch(payload, damage_found, z);
	return 0;
}

const struct image_format image_format_pz = { "snapshot", bgzf_probe, load };
