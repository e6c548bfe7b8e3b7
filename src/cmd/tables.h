/* What `pyanalyze --version` says of the built-in layout tables. */
#ifndef CMD_TABLES_H
#define CMD_TABLES_H

#include "base/str.h"

/* One line: the minor versions and the machines that there are tables for. */
void tables_line(struct sb *out);
/* For each build a table of version by machine, and how each cell was had; no line is longer than 100 columns. */
void tables_matrix(struct sb *out);

#endif
