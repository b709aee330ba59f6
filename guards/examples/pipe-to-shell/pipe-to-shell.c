/*
 * Pipe-to-shell denies running code that nobody has seen: what comes from the
 * network or out of a decoder and goes into a shell, an interpreter, eval or
 * source, in one call; and a file that the same call downloads and runs.
 *
 * Whether a pipe joins two commands is not told by their words; that both are
 * in one call, and that the reader of the input can't be read by the host, is.
 *
 * Configuration: allow, a list of URLs ("https://sh.rustup.rs") whose scripts
 * may be run: each is a URL or what it begins with, up to a slash or a
 * question mark; opaque (docs/guards.md).
 */
#include "../shell/shell.h"

#define FETCHERS "curl wget wget2 fetch aria2c http https xh httpie nc ncat netcat socat lwp-request lynx w3m links elinks telnet dig ftp tftp curlie gsutil get gh glab aws rclone scp rsync sftp "
#define DECODERS "base64 base32 basenc uudecode gunzip zcat bzcat xzcat zstdcat rev tr "

enum { FETCHES = OWN, DECODES = OWN * 2, WITH_OPTION = OWN * 4, PRINTS = OWN * 8, REMOTE = OWN * 16, POWERSHELL = OWN * 32, EVAL = OWN * 64, OTHER_SHELL = OWN * 128 };
const char *const lists[] = {KINDS, FETCHERS, DECODERS, "openssl gpg gzip bzip2 xz zstd xxd ", "printf echo ", "ssh watch tmux screen at batch fish pwsh powershell iex ", "pwsh powershell ", "eval ", "fish pwsh powershell nu elvish xonsh csh tcsh r ", 0};

enum { NAMES = 32 };
static char written[NAMES][64]; /* names of files that the call writes */
static int names;

static void writes(const char *path) {
	if (names < NAMES && *path && *path != '-' && !starts(path, "/dev/")) base(path, written[names++]);
}

static int is_written(const char *path) {
	char name[64];
	base(path, name);
	for (int i = 0; *name && i < names; i++)
		if (gp_equal(written[i], name)) return 1;
	return 0;
}

/* permitted: the command does nothing but get a URL that is allowed. */
static int permitted(char **argv, int argc) {
	int urls = 0;
	for (int i = 1; i < argc; i++) {
		const char *w = argv[i];
		if (among(w, "--proto --tlsv1.2 --tlsv1.3 --silent --fail --show-error --location --quiet =https -qO- -O- -nv ")) continue;
		if (*w == '-' && w[1] && w[1] != '-') {
			while (*++w && has((const char[]){*w, 0}, "fsSLg46q")) {}
			if (!*w) continue;
			return 0;
		}
		int found = 0;
		char entry[256];
		for (unsigned n = 0; !found && gp_get_at("/config/allow/", n, "", entry, sizeof entry) >= 0; n++) {
			unsigned length = gp_length(entry);
			found = length && starts(w, entry) && (!w[length] || w[length] == '/' || w[length] == '?' || entry[length - 1] == '/') && !has(w + length, "$`{}[]") && !mentions(w, "..");
		}
		if (!found) return 0;
		urls++;
	}
	return urls > 0;
}

/* fetches reports whether a command gets something from the network, and notes
 * the names of the files that it may put it in. */
static int fetches(const char *name, char **argv, int argc) {
	if (!(kind_of(name) & FETCHES)) return 0;
	if (among(name, "scp rsync ")) { /* within one machine unless there is a colon */
		int remote = 0;
		for (int i = 1; i < argc; i++) remote |= has(argv[i], ":");
		if (!remote) return 0;
	}
	for (int i = 1; i < argc; i++) {
		const char *w = argv[i], *next = i + 1 < argc ? argv[i + 1] : "";
		int curl = !starts(name, "wget");
		if (among(w, "-o --output -O --output-document ") && !(curl && gp_equal(w, "-O"))) writes(next);
		else if (starts(w, "--output=")) writes(w + 9);
		else if (starts(w, "--output-document=")) writes(w + 18);
		else if (*w == '-' && w[1] != '-') { /* -sSLo file, -sSLofile, -LO */
			for (const char *o = w + 1; *o; o++)
				if (*o == 'o' || (*o == 'O' && !curl)) { writes(o[1] ? o + 1 : next); break; }
		} else if (*w != '-') { /* a file of the URL's last part, or behind a colon */
			writes(w);
			while (*w && *w != ':') w++;
			if (*w && w[1] != '/') writes(w + 1);
		}
	}
	return 1;
}

static int decodes(const char *name, char **argv, int argc) {
	unsigned kinds = kind_of(name);
	if (kinds & DECODES) return 1;
	if (!(kinds & (WITH_OPTION | PRINTS))) return 0;
	for (int i = 1; i < argc; i++) {
		if (kinds & WITH_OPTION && (starts(argv[i], "-d") || starts(argv[i], "--d") || starts(argv[i], "-r") || gp_equal(argv[i], "base64"))) return 1;
		for (const char *w = kinds & PRINTS ? argv[i] : ""; *w; w++)
			if (*w == '\\' && w[1] && has((const char[]){w[1], 0}, "xuU01")) return 1;
	}
	return 0;
}

/* loads: code in another language that runs what it gets or decodes. */
static int loads(const char *code) {
	static const char *const run[] = {"exec", "eval", "system", "popen", "subprocess", "spawn", "iex", "invoke-expression", "child_process", "function", 0};
	static const char *const get[] = {"b64decode", "urlopen", "urllib", "requests", "fromhex", "atob", "base64", "http", "https", "lwp", "decode_base64", "base64_decode", "gzinflate", "unpack", "open-uri", "iwr", "invoke-webrequest", "downloadstring", "curl", "wget", 0};
	return mentions_any(code, run) && mentions_any(code, get);
}

/* runs: what a command runs is not in its words, or is a file just written. */
static const char *runs(const char *name, char **argv, int argc, int unread) {
	unsigned kinds = kind_of(name), shell = kinds & SHELL, other = kinds & INTERPRETER;
	if (unread) {
		if (reads_input(name, argv, argc)) return name;
		if (starts(argv[0], "$") || starts(argv[0], "`") || gp_equal(argv[0], "{}")) {
			/* $(curl …), or all of a script in a variable; "$CC" -c x is neither. */
			if (argc == 1 || starts(argv[0], "$(") || starts(argv[0], "`")) return argv[0];
		}
		if (kinds & (EVAL | SOURCE))
			for (int i = 1; i < argc; i++)
				if (dynamic(argv[i]) || starts(argv[i], "/dev/")) return name;
		if (kinds & OTHER_SHELL) { /* with nothing but options it reads its input */
			int words = 0;
			for (int i = 1; i < argc; i++) words |= argv[i][0] != '-';
			if (!words) return name;
		}
		if (shell && argv[argc - 1][0] == '-' && has(argv[argc - 1], "c") && argc > 1) return name; /* xargs sh -c */
		for (int i = 1; other && i + 1 < argc; i++)
			if (among(argv[i], "-c -e -E -r --eval ") && (starts(argv[i + 1], "$") || starts(argv[i + 1], "`"))) return name;
		for (int i = 1; shell && i + 1 < argc; i++)
			if (argv[i][0] == '-' && argv[i][1] != '-' && has(argv[i], "c") && (starts(argv[i + 1], "$") || starts(argv[i + 1], "`") || gp_equal(argv[i + 1], "{}"))) return name;
	}
	if (among(name, "make gmake "))
		for (int i = 2; i < argc; i++)
			if (gp_equal(argv[i - 1], "-f") && gp_equal(argv[i], "-")) return name;
	if (gp_equal(name, "alias"))
		for (int i = 1; i < argc; i++) {
			char space[64];
			const char *value = argv[i];
			while (*value && *value != '=') value++;
			if (*value && kind_of(base(value + 1, space)) & (SHELL | INTERPRETER)) return argv[i];
		}
	if (has(argv[0], "/") && is_written(argv[0])) return argv[0];
	for (int i = 1; i < argc && (shell || other || kinds & SOURCE); i++) {
		if (other && (starts(argv[i], "https://") || starts(argv[i], "http://"))) return argv[i];
		if (argv[i][0] == '-') continue;
		if (is_written(argv[i])) return argv[i];
		if (other && !starts(argv[i], "run")) break; /* what follows is for the program */
	}
	return 0;
}

static int deny(const char *reader, const char *source) {
	return gp_verdict(GP_DENY, reader, " would run code that ", source, " and that nobody has seen. Save it to a file, read it, and run it in a later call", 0);
}

GP_CHECK check(void) {
	char opaque[8], op[8], space[64];
	if (gp_get("/call/shell/opaque", opaque, sizeof opaque) < 0) return GP_PASS;
	int unread = gp_equal(opaque, "true");
	for (unsigned i = 0; gp_get_at("/call/paths/", i, "/op", op, sizeof op) >= 0 && i < 256; i++) {
		gp_get_at("/call/paths/", i, "/path", text, sizeof text);
		if (starts(text, "/dev/tcp/") || starts(text, "/dev/udp/")) return gp_verdict(GP_DENY, "a connection that the shell opens by itself (", text, ") carries commands that nobody has seen. Use curl, and look at what it gets", 0);
		if (gp_equal(op, "write")) writes(text);
	}
	int argc, commands = 0, fetched = 0, decoded = 0, remote = 0, doubt = 0, odd = 0;
	static char reader[300];
	for (char **argv; (argv = gp_command(&argc)); commands++) {
		if (!argc) continue;
		const char *name = base(argv[0], space);
		if (fetches(name, argv, argc)) fetched |= !permitted(argv, argc);
		decoded |= decodes(name, argv, argc);
		odd |= has(argv[0], "$`");
		for (int i = 1; i < argc; i++)
			if ((among(name, "nc ncat netcat ") && among(argv[i], "-e -c --exec --sh-exec ")) || (gp_equal(name, "socat") && (mentions(argv[i], "exec") || mentions(argv[i], "system") || mentions(argv[i], "shell"))))
				return deny(name, "comes from the network");
		const char *by = runs(name, argv, argc, unread);
		if (by && !*reader) gp_join(reader, sizeof reader, (const char *const[]){by, 0});
		if (by && (starts(by, "https://") || starts(by, "http://"))) remote = 1;
		unsigned kinds = kind_of(name), foreign = kinds & (INTERPRETER | POWERSHELL);
		for (int i = 1; foreign && i < argc; i++)
			if (loads(argv[i])) return deny(name, "is loaded or decoded as it runs");
		doubt |= (foreign && reads_input(name, argv, argc)) || (kinds & REMOTE);
	}
	if (*reader && (fetched || remote)) return deny(reader, "comes from the network");
	if (*reader && decoded) return deny(reader, "comes out of a decoder");
	if (*reader && odd && opaque_setting() == SEARCH) { /* a program in a variable may be one of these */
		static const char *const names[] = {"curl", "wget", "base64 -d", "base64 --decode", "xxd -r", 0};
		if (mentions_any(read_text(), names)) return deny(reader, "comes from the network or a decoder");
	}
	if (opaque_setting() == SEARCH && (doubt || (unread && !commands))) {
		static const char *const into[] = {"| sh", "|sh", "| bash", "|bash", "| zsh", "| sudo", "| python", "| python3", "| iex", "|iex", "iex", 0};
		static const char *const from[] = {"curl", "wget", "iwr", "invoke-webrequest", "downloadstring", "base64", 0};
		const char *all = read_text();
		if (mentions_any(all, into) && mentions_any(all, from)) return deny("this command", "comes from the network or a decoder");
		if (doubt && loads(all)) return deny("this command", "is loaded or decoded as it runs");
	}
	return opaque_answer(unread);
}

GP_CONFIG config(void) {
	static const char *const names[] = {"opaque", "allow", 0};
	kind_of(""); /* all names are filed now, once */
	if (opaque_setting() == NONE || !only_settings(names))
		return gp_verdict(GP_DENY, "the settings are allow, a list of URLs, and opaque: search, pass, ask or deny", 0);
	return GP_PASS;
}
