/*
 * The report: typed structs that mirror pysnap.report/1 one to one, all in one arena.  Knows neither ELF nor Python.
 * Text is valid UTF-8 and not yet escaped; s == NULL means "not known" and the key is absent in JSON.
 */
#ifndef MODEL_REPORT_H
#define MODEL_REPORT_H

#include <sys/types.h>

#include "base/str.h"

enum problem {
	P_NONE,
#define PROBLEM(id, code, severity, text, hint) P_##id,
#include "problems.def"
#undef PROBLEM
	PROBLEM_COUNT
};
enum severity { SEVERITY_INFO, SEVERITY_WARNING, SEVERITY_ERROR };

struct report_position { int line, end_line, col, end_col; }; /* -1: not known; columns from 0 in bytes of the line */

enum plumbing { PLUMBING_NONE, PLUMBING_FOLDED /* one line for all that follow each other */, PLUMBING_SILENT /* not even that, if all are */ };

struct report_frame {
	bool python;
	struct str function, qualname, file;
	struct report_position at;
	struct str source;         /* the line's text, without its end of line */
	struct str module;         /* of native frames */
	struct str build_id;       /* of module, where nothing of it is here to name its functions; s NULL otherwise */
	struct str symbol;         /* where function is a demangled name: as the symbol table has it; s NULL: they are the same */
	int64_t interpreter;       /* of Python ones: id of the one it runs in; -1: not known */
	uint64_t pc, code;         /* pc of native frames; code object's address of Python ones: identity for folding */
	bool unread;               /* of Python ones: its code object, or its function's or file's name, cannot be read */
	/* Of native frames: */
	uint64_t offset;           /* pc as an address of the module's file; meaningful where module.s is */
	uint64_t into;             /* bytes from the function's start */
	bool inlined;              /* into the next older frame, which has the same pc */
	uint8_t plumbing;          /* enum plumbing: the interpreter's own machinery, unless all is to be seen */
	bool signal;               /* what a signal handler returns to: the next older frame was interrupted */
	bool jit;                  /* code in memory that is no file's */
	const char *found_by;      /* "registers" "cfi" (the unwind tables) "signal frame"; likely ones: "link register" "frame pointer" "scan"; NULL: not known */
	bool likely;               /* found by what need not be true */
};

/* A piece of a stack: frames[0..n) of it stand `repeat` times one after the other (repeat >= 1). Oldest first. */
struct report_run {
	const struct report_frame *const *frames;
	size_t n;
	uint64_t repeat;
};

/* An exception of a thread. */
struct report_exception {
	int64_t tid;               /* -1 if not known */
	bool raised;               /* set, and not caught yet; else it is being handled */
	bool kept;                 /* it was handled in a function that still runs; perhaps that is over */
	bool uncaught, likely;     /* neither: nothing has caught it, and it is being printed or a hook for it runs; likely: that it is this one */
	struct str type;           /* "ValueError"; s NULL if it cannot be read */
	struct str text;           /* what str() of it says; s NULL if it cannot be read */
	const struct report_frame *const *traceback; /* what it passed, the frame that handles it first; of many, the first and the last */
	size_t n_traceback;
	uint64_t passed;           /* all of them */
};

struct report_thread {
	int64_t tid;               /* -1 if not known */
	uint64_t python_id;        /* threading.get_ident(); 0 if not known */
	struct str name;           /* threading's, else the kernel's */
	bool name_from_kernel;
	bool name_inherited;       /* the kernel's, and Python calls another thread so: new threads have their maker's until they get their own */
	bool name_left;            /* Python's, found in what is left of a cut file */
	bool again;                /* a further thread state of a thread that is there already, where it cannot be told how they belong together */
	bool main, crashed, holds_gil, stale;
	bool handled;              /* a signal handler runs on it, and what that interrupted is the crash */
	struct str in_handler;     /* of another thread than the one that crashed, of any where none did: of what a signal handler runs on it; s NULL: of no fault */
	bool signalled;            /* the one that the signal came to for which the core was written, crash or not */
	bool starting;             /* a thread state whose thread has not begun */
	bool has_python;           /* has a thread state */
	bool active;               /* has at least one Python frame */
	bool on_cpu;               /* was not in a system call */
	bool stopped;              /* by a signal (SIGSTOP, ^Z): it waits to be continued */
	struct str waits_in;       /* system call's name or the kernel's wchan; s NULL if not known */
	int64_t interpreter;       /* id; of several the one whose frames are innermost; -1 if none */
	const int64_t *interpreters; /* all in which it has a thread state, the outermost first; its stack is those of all */
	size_t n_interpreters;     /* of several states of one interpreter that follow each other, once */
	size_t n_states;           /* thread states that it has; 0 where it has none */
	uint64_t state;            /* its thread state's address; 0 if none */
	size_t image;              /* the image's thread, index + 1; 0 if none */
	const struct report_run *runs; /* oldest first */
	size_t n_runs;
	uint64_t n_frames;         /* all, folded ones counted */
	struct str unmatched;      /* why native and Python frames stand one after the other; s NULL: merged, or only one kind is there */
	struct str native_broken;  /* why older native frames are unknown; s NULL: they are not, or none were asked for */
	struct str broken;         /* why the walk stopped early ("frame 0x.. is not in the capture"); s NULL if whole */
	size_t group;              /* index into groups */
	const struct report_exception *handling; /* in an except clause; of a thread that crashed it is in exceptions, and this is NULL */
};
struct report_group { const size_t *threads; size_t n; }; /* indexes of threads whose stacks are the same, as far as they are known */

/* A line that explains the verdict: "handler", "signal", "collector", "GIL", "state", "id", "exception" and what is to be said of it. */
struct report_note { const char *key; struct str text; };
#define NOTE_DETAIL_ID "detail id" /* the key of why there is none */

struct report_interp { int64_t id; /* up to 3.6, which number none: its place, the main one first */ bool main; bool gil_known, gil_locked; int64_t gil_holder_tid; /* -1: nobody or not known */
	bool gil_holder_runs; /* and its thread state has Python frames */ };

struct report_module { struct str path, build_id, disk_path, disk_build_id, file, debug_file; uint64_t start, end; const char *symbols; /* "full" "mini" "dynsym" "none" "mismatch" */ };

struct report_problem {
	enum problem id;
	const char *code;          /* "PZ203" */
	enum severity severity;
	struct str message, hint;  /* hint s NULL: nothing lifts it */
	struct str details;        /* lines, for who asks more closely; s NULL: there are none */
};

enum verdict_kind { VERDICT_UNKNOWN, VERDICT_CRASH, VERDICT_STOPPED, VERDICT_SNAPSHOT };

/* A call led to where no code is: itself, or what it called went on there. */
enum called { CALLED_EITHER, CALLED_IT, CALLED_ANOTHER };

struct report {
	struct arena *arena;
	struct { struct str version; const char *const *features; /* NULL-terminated */ } tool;
	struct {
		struct str path;
		const char *kind;          /* "core" "snapshot" */
		uint64_t size, expected;   /* of the ELF core; expected > size: truncated */
		uint64_t file_size;
		struct str compression;    /* of a core that was given compressed: "zstd"; s NULL: it was not */
		bool complete, damage_said;
		bool consistent;           /* snapshot: all threads were stopped */
		int64_t stopped_ns;        /* -1: not known */
		struct str tool;           /* that wrote it */
		struct {
			size_t segments, of_segments; /* of a truncated core; of_segments 0: it is not */
			size_t stacks, of_stacks;     /* threads whose stack is not there at the stack pointer */
			size_t in_part;               /* others, of whose stack something further up is known not to be there */
			size_t with_stacks, of_files, other; /* of the lost segments: with such a stack, a file's, and neither */
			struct VEC(struct str) files; /* whose data is lost: names without folders, in the order of addresses */
		} lost;
	} input;
	struct {
		int64_t pid, ppid, uid;    /* -1: not known */
		struct str exe, cwd, args; /* args: the command line, joined by spaces */
		struct str comm;
		int64_t start_ns, dump_ns; /* CLOCK_REALTIME; 0: not known */
	} process;
	struct {
		bool found;
		bool unread;               /* one is there, but no layout fits: nothing is known of its threads */
		struct str asked;          /* unread because an option would have it so: "as the Python 3.13 that ... asks for" */
		struct str version;        /* "3.12.1" */
		uint32_t hex;
		bool debug, free_threaded;
		bool named;                /* not found where an option said that it is; nowhere else was looked */
		bool others;               /* further ones are alive in the process, of which nothing is shown */
		bool salvaged;             /* out of a truncated core: threads without a thread state may have had one */
		struct str found_by, layout, executable;
		struct str version_source;     /* "process" or "layout" */
	} python;
	struct {
		enum verdict_kind kind;
		bool likely;               /* else certain */
		struct str title;          /* line 1 without its first word: "SIGSEGV: at address 0x0 (null pointer)" */
		struct str word;           /* line 1's first word: CRASH STOPPED SNAPSHOT UNKNOWN */
		int64_t tid;               /* the thread that matters; -1 */
		size_t thread;             /* its index; (size_t)-1 */
		size_t thread_hidden;      /* where it is not to be shown: its index in hidden; (size_t)-1 */
		struct { bool known; struct str name; int number, code; struct str code_name; bool has_addr; uint64_t addr; int64_t sender_pid, sender_uid; /* -1 */ bool code_unknown; } signal;
		const struct report_frame *location; /* the innermost Python frame, else the innermost; NULL if none */
		const struct report_frame *called_by; /* where location is in Python's own library: the innermost Python frame outside of it; NULL if none */
		struct str culprit;                  /* the module a crash comes from; s NULL: not known, or the interpreter itself */
		bool culprit_likely;                 /* what leads to it was found by a search of the stack */
		struct str group_id, detail_id;      /* of a crash: formats/crash_id.md; s NULL: not known */
		bool ids_likely;                     /* what they are made of may be another crash's */
		const char *access;                  /* "read" "write" "read-write" "exec"; NULL: not known */
		struct str instruction;              /* that faulted: "mov rax, [rdi]" */
		struct str operands;                 /* the registers in it: "rdi = 0x0" */
		struct str raised_by;                /* of a process that ended itself: "abort() <- ..." */
		struct { bool known; struct str name; int number, code; int64_t sender_pid; } ended_by; /* where a handler ran first: the last signal */
		struct {                             /* of a crash inside of the garbage collector */
			bool known, certain;         /* certain: that the object is the cause */
			int generation;              /* -1: not known */
			const char *phase;           /* NULL: not known */
			uint64_t object, value;      /* whose field cannot be right, and what stands there; field NULL: none was found */
			const char *field;
			struct str type;     /* the name of object's; s NULL: not known */
		} collector;
		bool without_gil;                    /* of a crash: its thread has a thread state, and it is known that it did not hold the GIL */
		bool exceptions_known;               /* it is known what exceptions its thread has */
		struct VEC(struct report_note) notes;
		const struct report_frame *native;   /* of a crash: the innermost native frame; NULL if not known */
		const struct report_frame *caller;   /* of a crash where no code is: the native frame whose call led there; NULL: not known, or none */
		enum called called;                  /* caller: how */
		const struct report_frame *callee;   /* CALLED_ANOTHER: the function, its first instruction; NULL: not known */
	} verdict;
	struct { size_t modules, named; } symbols; /* files in whose code native frames lie, and those where each of these has a name */
	struct VEC(struct report_interp) interps;
	struct VEC(struct report_thread) threads;  /* the one that matters first */
	struct VEC(struct report_thread) hidden;   /* those that are not to be shown */
	struct VEC(struct report_group) groups;    /* in order of first thread */
	struct VEC(struct report_module) modules;
	struct VEC(struct report_exception) exceptions; /* of the thread that crashed */
	struct VEC(struct report_problem) problems;
	struct problem_said *said;                 /* those, by id and text */
};

struct report *report_new(void);
void report_free(struct report *r);                /* takes NULL */
/* Adds a problem once: the same id with the same text is not added twice.  Text and hint are problems.def's formats,
 * which take the arguments in order (text's first, then hint's). */
void report_problem(struct report *r, enum problem id, ...);
/* Of the problem that was added last; s NULL or empty: it has none. */
void report_details(struct report *r, struct str lines);
/* Fold repetitions of up to 24 frames: frames[0..n) oldest first -> runs in the arena; equal means the same pointer. */
void report_fold(struct report *r, const struct report_frame *const *frames, size_t n, const struct report_run **ret, size_t *ret_n);
/* Leave the native frames of all threads out; what the verdict says of them stays.  Groups are filled anew. */
void report_python_only(struct report *r);
/* Fill groups: threads with the same frames (function, file, line, in order) but for plumbing, those that are in several interpreters
 * in the same ones; their state does not matter.  Linear in frames. */
void report_group(struct report *r);

#endif
