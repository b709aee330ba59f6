/*
 * Privilege denies what gives a command more rights than the session has:
 * sudo and its like, setuid bits and file capabilities, the sockets of
 * container engines, containers that own the host, and writes to the files
 * that say who may do what.
 *
 * Configuration: allow, a list of those programs that may be used all
 * the same ("sudo"); opaque (docs/guards.md).
 */
#include "../shell/shell.h"

#define BECOME "sudo sudoedit doas su runuser pkexec gosu su-exec run0 visudo vipw vigr nsenter setcap chpasswd machinectl newgrp sg dzdo please sudo-rs runas ksu gksu gksudo kdesu kdesudo lxsudo pfexec calife super "
#define READERS "cat less more head tail grep egrep fgrep rg ls stat file wc diff cmp cut sort uniq getent test [ [[ echo printf find git man id sha256sum md5sum tree which type bat jq "
#define ENGINES "docker podman nerdctl docker-compose "

enum { BECOMES = OWN, READS = OWN * 2, ENGINE = OWN * 4, MODES = OWN * 8, GROUPS = OWN * 16 };
const char *const lists[] = {KINDS, BECOME, READERS, ENGINES, "chmod install mkdir ", "usermod gpasswd adduser addgroup groupmod useradd groupmems ", 0};

static int deny(const char *what, const char *instead) {
	return gp_verdict(GP_DENY, what, ". This session has the rights that it needs: ", instead, 0);
}

/* socket: the word names the socket of a container engine. */
static const char *socket(const char *word) {
	static const char *const names[] = {"docker.sock", "containerd.sock", "podman.sock", "crio.sock", "buildkitd.sock", 0};
	return mentions_any(word, names);
}

/* rights: the path is of a file that says who may do what. */
static int rights(const char *path) {
	if (starts(path, "/private")) path += 8;
	if (!starts(path, "/")) return 0;
	char space[256];
	path = clean(path, space, sizeof space);
	return starts(path, "/etc/sudoers") || starts(path, "/etc/doas") || starts(path, "/etc/pam.d") || starts(path, "/etc/polkit") || starts(path, "/etc/security/") ||
		among(path, "/etc/passwd /etc/shadow /etc/group /etc/gshadow /etc/subuid /etc/subgid /etc/ld.so.preload /etc/pam.conf ");
}

/* setuid: a mode that sets the setuid or setgid bit. */
static int setuid(const char *mode) {
	unsigned n = gp_length(mode);
	if (mode[0] >= '0' && mode[0] <= '7') {
		while (n > 4 && *mode == '0') mode++, n--;
		return n == 4 && mode[0] & 6;
	}
	int sets = 0;
	for (; *mode; mode++) {
		if (*mode == '+' || *mode == '=') sets = 1;
		else if (*mode == '-' || *mode == ',') sets = 0;
		else if (sets && *mode == 's') return 1;
		else if (!has((const char[]){*mode, 0}, "ugoarwxXst")) return 0;
	}
	return 0;
}

/* whole: the part of a volume before the colon is a directory of the system. */
static int whole(const char *volume) {
	char host[128];
	unsigned n = 0;
	for (; volume[n] && volume[n] != ':' && volume[n] != ',' && n < sizeof host - 1; n++) host[n] = volume[n];
	while (n > 1 && (host[n - 1] == '/' || host[n - 1] == '.')) n--;
	host[n] = 0;
	return among(host, "/ /etc /root /home /var /usr /boot /proc /sys /dev /run /var/run /var/lib /lib /bin /sbin /Users ");
}

static const char *engine(char **argv, int argc) {
	for (int i = 1; i < argc; i++) {
		const char *w = argv[i], *next = i + 1 < argc ? argv[i + 1] : "";
		if (starts(w, "--privileged") && !gp_equal(w, "--privileged=false")) return "a privileged container";
		if (gp_equal(w, "--pid=host") || gp_equal(w, "--userns=host") || (among(w, "--pid --userns ") && gp_equal(next, "host"))) return "a container in the namespaces of the host";
		if (starts(w, "--cap-add") && (mentions(w, "all") || mentions(w, "sys_admin") || mentions(w, "cap_sys_admin") || mentions(next, "all") || mentions(next, "sys_admin") || mentions(next, "cap_sys_admin"))) return "a container with all capabilities";
		if (gp_equal(w, "--allow=security.insecure") || (gp_equal(w, "--allow") && gp_equal(next, "security.insecure"))) return "a build without confinement";
		if (starts(w, "--security-opt") && (mentions(w, "unconfined") || mentions(next, "unconfined"))) return "a container without confinement";
		if ((among(w, "-v --volume ") && whole(next)) || (starts(w, "--volume=") && whole(w + 9)) || (starts(w, "-v/") && whole(w + 2))) return "a container with a system directory of the host";
		if (starts(w, "--mount")) {
			const char *m = w[7] == '=' ? w + 8 : next;
			for (; *m; m++)
				if ((starts(m, "source=") && whole(m + 7)) || (starts(m, "src=") && whole(m + 4))) return "a container with a system directory of the host";
		}
	}
	return 0;
}

static int command(char **argv, int argc) {
	char space[64];
	const char *name = base(argv[0], space);
	unsigned kinds = kind_of(name);
	if (kinds & BECOMES && allowed("/config/allow/", name)) return GP_PASS;
	if (kinds & BECOMES) return deny(name, "run the command without it, or say which package or right is missing and go on with the rest");
	if (gp_equal(name, "systemd-run"))
		for (int i = 1; i < argc; i++)
			if (starts(argv[i], "--uid") || starts(argv[i], "--system")) return deny("systemd-run as another user", "run the command itself");
	if (kinds & MODES)
		for (int i = 1; i < argc; i++) {
			const char *mode = argv[i];
			int flagged = gp_equal(name, "chmod");
			if (starts(mode, "--mode=")) mode += 7, flagged = 1;
			else if (!gp_equal(name, "chmod") && starts(mode, "-m") && mode[2]) mode += 2, flagged = 1;
			else if (i > 1 && among(argv[i - 1], "-m --mode ")) flagged = 1;
			if (flagged && setuid(mode)) return deny("a setuid or setgid bit", "use a mode such as 755");
		}
	if (kinds & GROUPS)
		for (int i = 1; i < argc; i++)
			for (int g = 0; g < 7; g++)
				if (mentions(argv[i], ((const char *const[]){"sudo", "wheel", "docker", "root", "admin", "lxd", "disk"})[g])) return deny("membership in a privileged group", "work as the user that you are");
	if (kinds & GROUPS)
		for (int i = 1; i + 1 < argc; i++)
			if (among(argv[i], "-u --uid -ou ") && gp_equal(argv[i + 1], "0")) return deny("another account with the rights of root", "work as the user that you are");
	if (gp_equal(name, "kubectl"))
		for (int i = 1; i < argc; i++)
			if (gp_equal(argv[i], "--privileged") || gp_equal(argv[i], "--profile=sysadmin") || (i > 1 && gp_equal(argv[i - 1], "--profile") && gp_equal(argv[i], "sysadmin"))) return deny("a privileged container", "run the container without that option");
	if (kinds & ENGINE) {
		const char *what = engine(argv, argc);
		if (what) return deny(what, "run the container without that option, with the directory of the project as its volume");
	}
	int reads = kinds & (READS | WRAPPER | SHELL);
	if (gp_equal(name, "sed")) { /* without -i it only reads */
		reads = 1;
		for (int i = 1; i < argc; i++)
			if (starts(argv[i], "-i") || starts(argv[i], "--in-place")) reads = 0;
	}
	for (int i = 1; i < argc && !reads; i++) {
		const char *sock = socket(argv[i]);
		if (sock) return deny(sock, "leave the container engine to the user");
		const char *w = argv[i];
		if (starts(w, "of=")) w += 3;
		if (rights(w) && !(among(name, "cp rsync install scp ") && i + 1 < argc)) return deny(w, "leave the accounts of the machine as they are");
	}
	return GP_PASS;
}

GP_CHECK check(void) {
	char opaque[8], op[8];
	for (unsigned i = 0; gp_get_at("/call/paths/", i, "/op", op, sizeof op) >= 0; i++) {
		gp_get_at("/call/paths/", i, "/path", text, sizeof text);
		if (gp_equal(op, "write") && rights(text)) return deny(text, "leave the accounts of the machine as they are");
		if (socket(text)) return deny(socket(text), "leave the container engine to the user");
	}
	if (gp_get("/call/shell/opaque", opaque, sizeof opaque) < 0) return GP_PASS;
	int argc, doubt = 0, commands = 0;
	for (char **argv; (argv = gp_command(&argc));) {
		if (!argc) continue;
		int verdict = command(argv, argc);
		if (verdict != GP_PASS) return verdict;
		doubt |= unseen(argv, argc);
		commands++;
	}
	int unread = gp_equal(opaque, "true");
	if (opaque_setting() == SEARCH && (doubt || (unread && !commands))) {
		static const char *const signs[] = {"sudo", "doas", "pkexec", "su -c", "chmod u+s", "chmod +s", "chmod 4755", "setuid", "setcap", "docker.sock", "/etc/sudoers", "--privileged", 0};
		const char *all = read_text();
		const char *sign = mentions_any(all, signs);
		if (sign) return gp_verdict(GP_DENY, "this command cannot be read to the end, and its text speaks of ", sign, ". Run the parts that need no more rights, each as a plain command", 0);
	}
	return opaque_answer(unread);
}

GP_CONFIG config(void) {
	static const char *const names[] = {"opaque", "allow", 0};
	kind_of(""); /* all names are filed now, once */
	if (opaque_setting() == NONE || !only_settings(names))
		return gp_verdict(GP_DENY, "the settings are allow, a list of programs, and opaque: search, pass, ask or deny", 0);
	return GP_PASS;
}
