/*
 * What a guard in C includes: the three functions of guard/1 and the words of
 * a shell command. Freestanding, one translation unit; README.md has an
 * example and the command that builds it.
 *
 * What does not fit or is not as the host writes it traps, which denies the
 * call. The host gives every call a memory of its own.
 */
#ifndef GUARDPROXY_H
#define GUARDPROXY_H

#define GP_CHECK __attribute__((export_name("guard_check_v1"))) int
#define GP_CONFIG __attribute__((export_name("guard_config_v1"))) int
#define GP_IMPORT(name) __attribute__((import_module("guardproxy"), import_name(name)))
GP_IMPORT("get") int gp_host_get(const char *pointer, unsigned length, char *to, unsigned capacity);
GP_IMPORT("reason") void gp_host_reason(const char *text, unsigned length);
GP_IMPORT("note") void gp_host_note(const char *text, unsigned length);

enum { GP_PASS = 1, GP_DENY = 2, GP_ASK = 3 };
enum { GP_INPUT = 1 << 20, GP_WORDS = 1 << 17 }; /* the host's limits: bytes of input, words of a script */

static inline unsigned gp_length(const char *s) { unsigned n = 0; while (s[n]) n++; return n; }

static inline int gp_equal(const char *a, const char *b) { while (*a && *a == *b) a++, b++; return *a == *b; }

/* gp_join writes strings, up to a null pointer, one after another: what does
 * not fit is left out. It returns the length. */
static inline int gp_join(char *to, unsigned capacity, const char *const *parts) {
	unsigned n = 0;
	for (; *parts; parts++)
		for (const char *s = *parts; *s && n + 1 < capacity; s++) to[n++] = *s;
	to[n] = 0;
	return (int)n;
}

/* gp_verdict gives the reason, put together of strings, and returns the
 * verdict: return gp_verdict(GP_DENY, "use ", other, " instead", 0). The model
 * is shown at most 300 characters: say what would be accepted. */
#define gp_verdict(verdict, ...) gp_say(verdict, (const char *const[]){__VA_ARGS__})
static inline int gp_say(int verdict, const char *const *parts) {
	char text[1024];
	int n = gp_join(text, sizeof text, parts);
	gp_host_reason(text, (unsigned)n);
	return verdict;
}

/* gp_note writes a line for the audit log. */
static inline void gp_note(const char *text) { gp_host_note(text, gp_length(text)); }

/* gp_get looks up a JSON Pointer (RFC 6901) in the input document: a string
 * comes decoded, anything else as compact JSON, in both cases with a zero
 * behind it. It returns the length, or -1 if there is none. */
static inline int gp_get(const char *pointer, char *to, unsigned capacity) {
	int n = gp_host_get(pointer, gp_length(pointer), to, capacity - 1);
	if (n >= (int)capacity) __builtin_trap();
	if (n >= 0) to[n] = 0;
	return n;
}

/* gp_get_at is gp_get for an element: gp_get_at("/call/paths/", 2, "/path", …). */
static inline int gp_get_at(const char *before, unsigned i, const char *behind, char *to, unsigned capacity) {
	char pointer[256], digits[11], *d = digits + 10;
	*d = 0;
	do *--d = (char)('0' + i % 10); while (i /= 10);
	gp_join(pointer, sizeof pointer, (const char *const[]){before, d, behind, 0});
	return gp_get(pointer, to, capacity);
}

/* gp_command gives the words of the next simple command of /call/shell/argv
 * and their number, or a null pointer after the last one. They stay for the
 * rest of the call, the array until the next gp_command. */
static inline char **gp_command(int *count) {
	static char text[GP_INPUT + 1], *words[GP_WORDS], *at;
	if (!at && gp_get("/call/shell/argv", text, sizeof text) < 0) return 0;
	if (!at) at = text + 1;
	if (*at == ',') at++;
	if (*at != '[') return 0;
	for (*count = 0, at++; *at != ']'; at += *at == ',') {
		if (*at++ != '"' || *count == GP_WORDS) __builtin_trap();
		char *to = words[(*count)++] = at;
		for (; *at != '"'; at++) {
			char c = *at;
			if (c == '\\') switch (c = *++at) {
				case 'n': c = '\n'; break;
				case 'r': c = '\r'; break;
				case 't': c = '\t'; break;
				case 'u': /* \u00XX, a control character; no program takes a zero */
					c = (char)((at[3] - '0') << 4 | (at[4] <= '9' ? at[4] - '0' : at[4] - 'a' + 10));
					if (!c) c = 1;
					at += 4;
				}
			if (!*at) __builtin_trap();
			*to++ = c;
		}
		at++;
		*to = 0; /* over the quote, or before it */
	}
	at++;
	return words;
}

#endif
