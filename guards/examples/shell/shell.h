/*
 * What the guards in C know about shell commands: names of programs, commands
 * whose words do not say what they run, and a search of the text for those.
 *
 * The host has parsed the command: wrappers (sudo, xargs, sh -c, find -exec)
 * are followed by the command that they run. What is left is named here:
 * a program in a variable, a script from a pipe, code in another language. The
 * text of a call with such a command is searched for what the guard is about.
 */
#ifndef SHELL_H
#define SHELL_H
#include "../../sdk/c/guardproxy.h"

static char text[GP_INPUT + 1];

static inline int has(const char *s, const char *set) {
	for (; *s; s++)
		for (const char *c = set; *c; c++)
			if (*s == *c) return 1;
	return 0;
}

static inline int starts(const char *s, const char *with) {
	while (*with && *s == *with) s++, with++;
	return !*with;
}

static inline char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

/* among looks for a name in a list of names, each with a space behind it. */
static inline int among(const char *name, const char *list) {
	if (!*name) return 0;
	while (*list) {
		const char *n = name;
		while (*n && *n == *list) n++, list++;
		if (!*n && *list == ' ') return 1;
		while (*list && *list++ != ' ') {}
	}
	return 0;
}

enum { SLOTS = 1024 };
static struct { const char *name; unsigned bits; } slots[SLOTS]; /* a name ends with a space */

static inline unsigned slot_of(const char *name) {
	unsigned h = 0;
	for (; *name && *name != ' '; name++) h = h * 31 + (unsigned char)*name;
	return h % SLOTS;
}

/* file_names puts the names of all lists where their hash says. A guard does it
 * when it starts, which is once: calls begin with the memory of a guard that was
 * started. As many names as slots are a loop without end, which stops it there. */
static inline void file_names(const char *const *lists) {
	for (int i = 0; lists[i]; i++)
		for (const char *name = lists[i]; *name; name++) {
			unsigned at = slot_of(name);
			while (slots[at].name) at = (at + 1) % SLOTS;
			slots[at].name = name, slots[at].bits = 1u << i;
			while (*name != ' ') name++;
		}
}

/* kind is the set of lists, one bit each, that have a name. */
static inline unsigned kind(const char *name, const char *const *lists) {
	static int filed;
	if (!filed) file_names(lists), filed = 1;
	unsigned bits = 0;
	for (unsigned at = slot_of(name); slots[at].name; at = (at + 1) % SLOTS) {
		unsigned n = 0;
		while (name[n] && name[n] != ' ' && name[n] == slots[at].name[n]) n++;
		if (n && !name[n] && slots[at].name[n] == ' ') bits |= slots[at].bits;
	}
	return bits;
}

/* base writes a program's name: no directory, no .exe, in lower case. */
static inline const char *base(const char *word, char name[64]) {
	const char *from = word;
	for (const char *s = word; *s; s++)
		if (*s == '/') from = s + 1;
	int n = 0;
	for (; from[n] && n < 63; n++) name[n] = lower(from[n]);
	name[n] = 0;
	if (n > 4 && gp_equal(name + n - 4, ".exe")) name[n - 4] = 0;
	return name;
}

/* clean writes an absolute path without //, /./ and /../. */
static inline const char *clean(const char *path, char *to, unsigned capacity) {
	unsigned n = 0;
	while (*path) {
		while (*path == '/') path++;
		unsigned part = 0;
		while (path[part] && path[part] != '/') part++;
		if (part == 2 && path[0] == '.' && path[1] == '.') {
			while (n && to[--n] != '/') {}
		} else if (part && !(part == 1 && path[0] == '.') && n + part + 2 < capacity) {
			to[n++] = '/';
			for (unsigned i = 0; i < part; i++) to[n++] = path[i];
		}
		path += part;
	}
	to[n] = 0;
	return to;
}

/* dynamic: the shell expands something in the word. */
static inline int dynamic(const char *word) { return has(word, "$`") || starts(word, "<("); }

enum { SHELL = 1, INTERPRETER = 2, WRAPPER = 4, FOREIGN = 8, SOURCE = 16, OWN = 32 };
#define KINDS SHELLS, INTERPRETERS, WRAPPERS, FOREIGNS, "source . "
#define FOREIGNS "alias fish pwsh powershell nu elvish xonsh csh tcsh cmd xargs parallel ssh at batch watch tmux screen crontab nix-shell entr script hyperfine awk gawk mawk nawk vim vi nvim ex ed emacs make gmake gdb socat tar "
#define SHELLS "sh bash rbash dash ash hush posh zsh ksh ksh93 rksh mksh lksh oksh yash "
/* The commands that these run follow them in the list. */
#define WRAPPERS "sudo doas env command builtin exec nohup nice ionice time timeout gtimeout stdbuf setsid xargs parallel watch strace ltrace busybox toybox chroot unshare flock chrt taskset caffeinate find gfind fd npx poetry uv bundle pipenv "
#define INTERPRETERS "python python2 python3 perl ruby node nodejs bun deno php lua rscript osascript tclsh expect jshell groovy "

/* The lists that a guard looks names up in: KINDS, and its own from OWN on. */
extern const char *const lists[];
static inline unsigned kind_of(const char *name) { return starts(name, "python3.") ? INTERPRETER : kind(name, lists); }

/* reads_input: a shell or an interpreter without a script among its words. */
static inline int reads_input(const char *name, char **argv, int argc) {
	if (kind_of(name) & SHELL) {
		for (int i = 1; i < argc; i++) {
			if (argv[i][0] == '-' && argv[i][1] != '-' && has(argv[i], "c")) return 0;
			if (argv[i][0] == '-' && argv[i][1] != '-' && has(argv[i], "s")) return 1;
			if (argv[i][0] != '-' && argv[i][0] != '+') return dynamic(argv[i]) || starts(argv[i], "/dev/") || starts(argv[i], "/proc/");
		}
		return !(argc > 1 && (gp_equal(argv[1], "--version") || gp_equal(argv[1], "--help")));
	}
	if (kind_of(name) & INTERPRETER) {
		for (int i = 1; i < argc; i++) {
			if (argv[i][0] != '-') return dynamic(argv[i]) || starts(argv[i], "/dev/");
			if (argv[i][1] == 'm' || among(argv[i], "-c -e -r -E --eval -V --version --help ")) return 0;
		}
		return 1;
	}
	return 0;
}

/* unseen: what the command runs is not among the words. */
static inline int unseen(char **argv, int argc) {
	char space[64];
	const char *name = base(argv[0], space);
	if (has(name, "$`)}*?") || (has(name, "[") && !among(name, "[ [[ "))) return 1;
	if (reads_input(name, argv, argc)) return 1;
	if (kind_of(name) & INTERPRETER)
		for (int i = 1; i < argc; i++) {
			const char *w = argv[i];
			if (*w != '-') return gp_equal(w, "eval");
			if (w[1] == 'm' || among(w, "-V -v --version --help ")) return 0;
			if (among(w, "--eval --print ") || (w[1] != '-' && has(w, "ceErp"))) return 1; /* code in the words */
		}
	if (kind_of(name) & SOURCE) return argc > 1 && (dynamic(argv[1]) || starts(argv[1], "/dev/"));
	return argc > 1 && ((kind_of(name) & FOREIGN) || (gp_equal(name, "git") && starts(argv[1], "-c")));
}

static inline int letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

static inline int gap(char c) { return c && has((const char[]){c, 0}, " \t\r\n\\'\",[]()"); }

static inline int spoken_at(const char *in, const char *at, const char *words) {
	char last = 0;
	if (lower(*at) != *words || (at > in && letter(at[-1]) && (letter(*at) || *at == '.'))) return 0;
	for (; *words; last = *words++) {
		if (*words == ' ') {
			if (!gap(*at)) return 0;
			while (gap(*at)) at++;
		} else if (lower(*at++) != *words) return 0;
	}
	return !(letter(last) && letter(*at));
}

/* mentions looks for words in a text, as words and whatever their case. A
 * space stands for whatever parts words there, in quotes and lists too. */
static inline int mentions(const char *in, const char *words) {
	for (const char *at = in; *at; at++)
		if (lower(*at) == *words && spoken_at(in, at, words)) return 1;
	return 0;
}

/* mentions_any is mentions for the first of several, up to a null pointer, that
 * is found; a null pointer if none is. It reads the text once. */
static inline const char *mentions_any(const char *in, const char *const *several) {
	unsigned long long first = 0; /* by the low bits of a byte: most are none of them */
	for (int i = 0; several[i]; i++) first |= 1ull << (*several[i] & 63);
	for (const char *at = in; *at; at++)
		if (first >> (lower(*at) & 63) & 1)
			for (int i = 0; several[i]; i++)
				if (spoken_at(in, at, several[i])) return several[i];
	return 0;
}

/* read_text gets the command as the model wrote it, or all arguments. */
static inline const char *read_text(void) {
	static const char *const pointers[] = {"/call/arguments/command", "/call/arguments/cmd", "/call/arguments/script", "/call/arguments/code", "/call/arguments", 0};
	for (int i = 0; pointers[i]; i++)
		if (gp_get(pointers[i], text, sizeof text) >= 0) return text;
	return "";
}

enum opaque { SEARCH, IGNORE, ASK, REFUSE, NONE };

/* opaque_setting is what the operator wants for commands that the host can't
 * read to the end; NONE if the setting is none. */
static inline enum opaque opaque_setting(void) {
	char value[16];
	int n = gp_host_get("/config/opaque", 14, value, sizeof value - 1);
	if (n < 0) return SEARCH;
	if (n >= (int)sizeof value) return NONE;
	value[n] = 0;
	return gp_equal(value, "search") ? SEARCH : gp_equal(value, "pass") ? IGNORE : gp_equal(value, "ask") ? ASK : gp_equal(value, "deny") ? REFUSE : NONE;
}

/* only_settings holds the configuration to the names in a list: each is an
 * array of texts, but for opaque. Every byte of it must be theirs. */
static inline int only_settings(const char *const *names) {
	int bytes = 0, count = 0;
	for (; *names; names++) {
		char pointer[64];
		gp_join(pointer, sizeof pointer, (const char *const[]){"/config/", *names, 0});
		int n = gp_host_get(pointer, gp_length(pointer), text, GP_INPUT);
		if (n < 0) continue;
		int list = !gp_equal(*names, "opaque");
		if (list && text[0] != '[') return 0;
		bytes += (int)gp_length(*names) + 3 + n + (list ? 0 : 2);
		count++;
	}
	return gp_get("/config", text, sizeof text) == bytes + 2 + (count ? count - 1 : 0);
}

/* allowed looks for a text in a list of the configuration. */
static inline int allowed(const char *list, const char *word) {
	char entry[256];
	for (unsigned i = 0; gp_get_at(list, i, "", entry, sizeof entry) >= 0; i++)
		if (gp_equal(entry, word)) return 1;
	return 0;
}

/* opaque_answer is the verdict on a command that can't be read to the end. */
static inline int opaque_answer(int opaque) {
	if (opaque && opaque_setting() == ASK) return gp_verdict(GP_ASK, "this command cannot be read to the end: a part of it is decided only when it runs", 0);
	if (opaque && opaque_setting() == REFUSE) return gp_verdict(GP_DENY, "this command cannot be read to the end: write it without variables, patterns and substitutions", 0);
	return GP_PASS;
}

#endif
