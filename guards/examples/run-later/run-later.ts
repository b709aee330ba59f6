// Run-later denies writing into places whose content is run later, by somebody
// else, outside of what confines the session: git hooks and settings, shell
// start-up files, timers, CI workflows, editors' tasks, .envrc, ssh, and the
// agents' own configuration.
//
// Configuration: allow, a list of the ends of paths that may be written
// (".github/workflows/docs.yml"); opaque (docs/guards.md).
import { Commands, PASS, ask, deny, get } from "../../sdk/assemblyscript/guardproxy";

// Programs that look at files, or run them, or remove them; and those that run
// other commands, which follow them in the list.
const READERS = set("cat less more head tail grep egrep fgrep rg ag ls stat file wc diff cmp sort uniq test [ [[ echo printf tree which type bat jq yq cut rm rmdir unlink git du md5sum sha256sum shellcheck actionlint act yamllint xxd hexdump readlink realpath basename dirname od strings nl tac source . ssh code cd pushd export" +
  " sh bash dash zsh ksh fish sudo doas env command builtin exec nohup nice ionice time timeout stdbuf setsid xargs parallel watch strace busybox find fd npx");
// Programs of which only the last word is written.
const COPIERS = set("cp mv install rsync scp ditto");

// Names of files, wherever they lie.
const FILES = words(".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .xinitrc .xprofile .xsession .xsessionrc .inputrc" +
  " .envrc .mise.toml mise.toml .yarnrc.yml .npmrc .gitconfig .gitmodules sitecustomize.py usercustomize.py .pdbrc .gdbinit .lldbinit .irbrc .pryrc .rprofile .vimrc .nvimrc .exrc .nvim.lua .emacs .dir-locals.el" +
  " .gitlab-ci.yml .travis.yml .drone.yml jenkinsfile azure-pipelines.yml bitbucket-pipelines.yml appveyor.yml .appveyor.yml cloudbuild.yaml buildspec.yml .woodpecker.yml .pre-commit-config.yaml lefthook.yml .lefthook.yml" +
  " .devcontainer.json .mcp.json .claude.json opencode.json opencode.jsonc .opencode.json crush.json .crush.json .aider.conf.yml .cursorrules");
// Directories, wherever they lie, and what in them counts: a star is all of it.
const DIRS: string[][] = [
  [".git", "hooks", "config", "config.worktree", "info", "modules"], [".husky", "*"], [".githooks", "*"],
  [".github", "workflows", "actions"], [".gitea", "workflows"], [".forgejo", "workflows"], [".circleci", "*"], [".buildkite", "*"], [".woodpecker", "*"],
  [".vscode", "tasks.json", "settings.json", "launch.json"], [".idea", "runconfigurations", "workspace.xml"], [".zed", "tasks.json", "settings.json"], [".devcontainer", "*"], [".emacs.d", "*"],
  [".claude", "*"], [".codex", "*"], [".gemini", "*"], [".qwen", "*"], [".opencode", "*"], [".crush", "*"], [".cursor", "*"], [".continue", "*"], [".windsurf", "*"],
  [".ssh", "config", "authorized_keys", "rc", "environment"], [".config", "fish", "autostart", "systemd", "git", "nvim", "opencode", "crush", "environment.d", "plasma-workspace"],
  ["library", "launchagents", "launchdaemons"], ["etc", "profile", "profile.d", "bash.bashrc", "environment", "zsh", "cron.d", "cron.daily", "cron.hourly", "cron.weekly", "cron.monthly", "crontab", "systemd", "init.d", "rc.local", "ld.so.preload", "xdg"],
  ["spool", "cron"],
];
// Settings of git that name a program or a directory of programs.
const SETTINGS = words("core.hookspath core.fsmonitor core.editor core.pager core.sshcommand sequence.editor init.templatedir include.path gpg.program credential.helper diff.external");

function words(list: string): string[] { return list.split(" "); }

function set(list: string): Set<string> {
  const names = words(list), out = new Set<string>();
  for (let i = 0; i < names.length; i++) out.add(names[i]);
  return out;
}

function base(word: string): string {
  const name = word.substring(word.lastIndexOf("/") + 1).toLowerCase();
  return name.endsWith(".exe") ? name.substring(0, name.length - 4) : name;
}

function wild(part: string): i32 {
  for (let i = 0; i < part.length; i++) {
    const c = part.charCodeAt(i);
    if (c == 0x2a || c == 0x3f || c == 0x5b || c == 0x7b || c == 0x24) return i; // * ? [ { $
  }
  return -1;
}

// shape is the pattern that the shell sees in a part of a path, made of * and ?
// alone: a bracket is one character, whatever the shell expands is any text. It
// is "" if there is none.
function shape(part: string): string {
  if (wild(part) < 0) return "";
  let out = "", pattern = false;
  for (let i = 0; i < part.length; i++) {
    let c = part.charAt(i);
    if (c == "*" || c == "?") pattern = true;
    else if (c == "[") {
      const from = i + 1 < part.length && (part.charAt(i + 1) == "!" || part.charAt(i + 1) == "^") ? i + 2 : i + 1;
      const end = part.indexOf("]", from + 1); // the first one in it stands for itself
      if (end > 0) { c = "?"; i = end; pattern = true; }
    } else if (c == "$" && i + 1 < part.length) {
      let end = i;
      if (part.charAt(i + 1) == "{") {
        end = part.indexOf("}", i);
        if (end < 0) end = part.length - 1;
      } else if (part.charAt(i + 1) == "(") end = part.length - 1;
      else while (end + 1 < part.length && letter(lower(part.charCodeAt(end + 1)))) end++;
      if (end > i) { c = "*"; i = end; pattern = true; }
    }
    out += c;
  }
  return pattern ? out : "";
}

// names says that a pattern has a letter of the name: all files that begin with
// a dot are no place, and as likely a pattern of another kind.
function names(shape: string): bool {
  for (let i = 0; i < shape.length; i++) if (letter(lower(shape.charCodeAt(i)))) return true;
  return false;
}

// fits compares a part of a path, and its shape, with a name. A pattern has to
// begin like the name.
function fits(part: string, shape: string, name: string): bool {
  if (shape == "") return part == name;
  if (shape.charCodeAt(0) != name.charCodeAt(0)) return false;
  let star = -1, back = 0, n = 0, p = 0;
  while (n < name.length) {
    const c = p < shape.length ? shape.charCodeAt(p) : 0;
    if (c == 0x2a) { star = p++; back = n; }
    else if (c == 0x3f || c == name.charCodeAt(n)) { p++; n++; }
    else if (star >= 0) { p = star + 1; n = ++back; }
    else return false;
  }
  while (p < shape.length && shape.charCodeAt(p) == 0x2a) p++;
  return p == shape.length;
}

// Sets for the first look: most paths are none of these.
const FILE_SET = new Set<string>();
const DIR_INDEX = new Map<string, i32>();
for (let i = 0; i < FILES.length; i++) FILE_SET.add(FILES[i]);
for (let i = 0; i < DIRS.length; i++) DIR_INDEX.set(DIRS[i][0], i);

// place returns the part of a path that makes it one of the places, or "".
function place(path: string): string {
  if (path.length > 8192 || !path.includes(".") && !path.includes("/") && !FILE_SET.has(path.toLowerCase())) return "";
  const parts = path.toLowerCase().split("/");
  const clean: string[] = [];
  for (let i = 0; i < parts.length; i++) {
    if (parts[i] == ".." && clean.length > 0 && clean[clean.length - 1] != "..") clean.pop();
    else if (parts[i] != "" && parts[i] != ".") clean.push(parts[i]);
  }
  if (clean.length == 0) return "";
  const last = clean[clean.length - 1];
  const pattern = shape(last);
  if (pattern == "") {
    if (FILE_SET.has(last)) return last;
  } else if (names(pattern)) {
    for (let i = 0; i < FILES.length; i++) if (fits(last, pattern, FILES[i])) return FILES[i];
  }
  for (let i = 0; i < clean.length; i++) {
    const pattern = shape(clean[i]);
    if (pattern == "") {
      if (!DIR_INDEX.has(clean[i])) continue;
      const found = below(DIRS[DIR_INDEX.get(clean[i])], clean, i, last, path);
      if (found != "") return found;
      continue;
    }
    for (let d = 0; d < DIRS.length; d++) {
      if (!fits(clean[i], pattern, DIRS[d][0]) || DIRS[d][1] == "*" && !names(pattern)) continue;
      const found = below(DIRS[d], clean, i, last, path);
      if (found != "") return found;
    }
  }
  return "";
}

// below looks at what stands behind a directory's name, part i of the path.
function below(dir: string[], clean: string[], i: i32, last: string, path: string): string {
  if (dir[0] == "etc" && !(i == 0 && path.startsWith("/"))) return "";
  if (dir[1] == "*") return dir[0];
  for (let n = 1; n < dir.length && i + 1 < clean.length; n++) {
    const next = clean[i + 1];
    if (wild(next) != 0 && !fits(next, shape(next), dir[n])) continue;
    if (dir[n] == "modules" && clean.indexOf("hooks", i) < 0 && last != "config") continue;
    return dir[0] + "/" + dir[n];
  }
  return "";
}

// Directories that the command changes to: each relative path may be in one.
const dirs: string[] = [];

// A write to what is in a variable.
let unknown = false;

// written is the reason not to write to a path, or "".
function written(path: string): string {
  let found = place(path);
  for (let i = 0; found == "" && i < dirs.length && !path.startsWith("/"); i++) found = place(dirs[i] + "/" + path);
  for (let i = 0; found != ""; i++) {
    const end = get("/config/allow/" + i.toString());
    if (end === null) break;
    if (path == end || path.endsWith("/" + end)) return "";
  }
  return found;
}

function refuse(found: string): i32 {
  return deny("what is written to " + found + " is run later, by others than this session. Put it into an ordinary file and say where the user may put it");
}

// command returns what a command writes to, or "".
function command(argv: string[]): string {
  const name = base(argv[0]);
  const first = argv.length > 1 ? argv[1] : "";
  if (name == "cd" || name == "pushd") {
    const to = argv[argv.length - 1];
    if (dirs.length < 16 && argv.length > 1) dirs.push(to.startsWith("/") || dirs.length == 0 ? to : dirs[dirs.length - 1] + "/" + to);
    return "";
  }
  if (name == "crontab") return argv.indexOf("-l") > 0 || argv.length == 2 && first == "-r" ? "" : "the crontab";
  if (name == "at" || name == "batch" || name == "schtasks") return "the queue of " + name;
  if (name == "systemctl" && argv.indexOf("enable") > 0) return "the enabled units of systemd";
  if (name == "launchctl" && (first == "load" || first == "bootstrap" || first == "submit")) return "the jobs of launchd";
  if (name == "mise" && first == "trust") return "the list of trusted mise.toml files";
  if (name == "direnv" && (first == "allow" || first == "permit" || first == "grant")) return "the list of allowed .envrc files";
  if ((name == "claude" || name == "codex" || name == "gemini" || name == "qwen" || name == "opencode") && (first == "mcp" || first == "config" || first == "plugin" || first == "extensions")) return "the configuration of " + name;
  if (name == "git") return git(argv);
  let reads = READERS.has(name) && !(name == "yq" && inPlace(argv)) && !(name == "sort" && gives(argv, "-o", "--output"));
  if ((name == "sed" || name == "awk" || name == "gawk") && !inPlace(argv)) reads = true;
  if (reads) return "";
  if (COPIERS.has(name)) {
    const to = argv[argv.length - 1];
    if (base(to.endsWith("/") ? to.substring(0, to.length - 1) : to) == ".git") return ".git";
  }
  for (let i = COPIERS.has(name) && !targets(argv) ? argv.length - 1 : 1; i < argv.length; i++) {
    const w = argv[i];
    unknown = unknown || w.includes("$");
    let found = written(w);
    const value = w.indexOf("=");
    if (found == "" && value > 0) found = written(w.substring(value + 1)); // of=, --output=
    if (found == "" && w.startsWith("-o")) found = written(w.substring(2));
    if (found != "") return found;
  }
  return "";
}

function targets(argv: string[]): bool {
  for (let i = 1; i < argv.length; i++) if (argv[i].startsWith("-t") || argv[i].startsWith("--target")) return true;
  return false;
}

function gives(argv: string[], short: string, long: string): bool {
  for (let i = 1; i < argv.length; i++) if (argv[i].startsWith(short) || argv[i].startsWith(long)) return true;
  return false;
}

function inPlace(argv: string[]): bool {
  for (let i = 1; i < argv.length; i++) {
    const w = argv[i];
    if (w.startsWith("--in-place") || w.length > 1 && w.charCodeAt(0) == 0x2d && w.charCodeAt(1) != 0x2d && w.includes("i")) return true;
  }
  return false;
}

// git runs programs that its settings name.
function git(argv: string[]): string {
  let reading = false;
  for (let i = 1; i < argv.length; i++) {
    const w = argv[i];
    reading = reading || w.startsWith("--get") || w == "--list" || w == "-l" || w == "get" || w == "list" || w.startsWith("--unset") || w == "unset";
  }
  for (let i = 1; i < argv.length; i++) {
    const w = argv[i].toLowerCase();
    const equals = w.indexOf("=");
    const key = equals < 0 ? w : w.substring(0, equals);
    const set = argv[i - 1] == "-c" || argv[i - 1] == "--config" || i + 1 < argv.length && argv.indexOf("config") > 0 && !reading;
    const runs = key.startsWith("filter.") || key.startsWith("difftool.") || key.startsWith("mergetool.") || key.startsWith("diff.") && key.endsWith(".command") || key.startsWith("diff.") && key.endsWith(".textconv") || key.startsWith("merge.") && key.endsWith(".driver");
    const value = equals >= 0 ? w.substring(equals + 1) : i + 1 < argv.length ? argv[i + 1] : "";
    if (set && (SETTINGS.includes(key) && value != "cat" && value != "true" && value != "" || runs || key.startsWith("alias.") && value.startsWith("!"))) return "the setting " + key + " of git";
    if (w.startsWith("--template=") && argv.indexOf("init") > 0) return "a template of hooks";
  }
  return "";
}

const SHELLS = set("sh bash rbash dash zsh ksh mksh ash yash");
const INTERPRETERS = set("python python2 python3 perl ruby node nodejs bun deno php lua osascript");
const FOREIGN = set("alias fish pwsh powershell nu csh tcsh xargs parallel ssh watch tmux screen expect script awk gawk mawk vim vi nvim ex ed emacs make gdb socat tar");

// unseen: what the command runs is not among its words. shell.h says more.
function unseen(argv: string[]): bool {
  const name = base(argv[0]);
  const first = argv.length > 1 ? argv[1] : "";
  if (name != "[" && name != "[[" && (wild(name) >= 0 || name.includes(")") || name.includes("}") || name.includes("`"))) return true;
  if (SHELLS.has(name)) {
    for (let i = 1; i < argv.length; i++) {
      const w = argv[i];
      if (w.startsWith("-") && !w.startsWith("--") && w.includes("c")) return false;
      if (!w.startsWith("-")) return w.includes("$") || w.startsWith("<(") || w.startsWith("/dev/");
    }
    return first != "--version";
  }
  if (INTERPRETERS.has(name) || name.startsWith("python3.")) {
    for (let i = 1; i < argv.length; i++) {
      const w = argv[i];
      if (!w.startsWith("-")) return w == "eval" || w.includes("$") || w.startsWith("<(") || w.startsWith("/dev/");
      if (w == "-m" || w == "-V" || w == "-v" || w == "--version" || w == "--help") return false;
      if (w == "-" || w == "--eval" || w == "--print" || !w.startsWith("--") && (w.includes("c") || w.includes("e") || w.includes("E") || w.includes("r") || w.includes("p"))) return true; // code in the words
    }
    return true;
  }
  if (name == "source" || name == ".") return first.includes("$") || first.startsWith("<(") || first.startsWith("/dev/");
  return argv.length > 1 && FOREIGN.has(name);
}

// Signs in a text: one of the places, and something that writes.
const PLACES = words(".git/hooks .git/config .husky .bashrc .bash_profile .profile .zshrc .zshenv .github/workflows .gitlab-ci.yml .circleci .vscode/tasks.json .vscode/settings.json .envrc .claude/ .claude.json .codex/ .gemini/ .mcp.json .ssh/config .ssh/authorized_keys .config/fish .config/autostart .config/systemd launchagents cron.d hookspath");
const WRITERS = words("> tee cp mv ln install dd sed write write_text writetext writefile writefilesync appendfile appendfilesync 'w' \"w\" 'a' \"a\" 'wb' 'w+' copy copyfile symlink rename replace system subprocess popen exec spawn chmod config");

// speaks returns the place that a text speaks of writing to, or "".
function speaks(text: string): string {
  const found = mentions(text, PLACES);
  return found != "" && mentions(text, WRITERS) != "" ? found : "";
}

// mentions returns the first of several that stands in a text, whatever its
// case, and not in the middle of a word. It reads the text once.
function mentions(text: string, several: string[]): string {
  const first = new StaticArray<bool>(128);
  for (let i = 0; i < several.length; i++) first[several[i].charCodeAt(0)] = true;
  for (let at = 0; at < text.length; at++) {
    const c = lower(text.charCodeAt(at));
    if (c >= 128 || !first[c] || at > 0 && letter(c) && letter(lower(text.charCodeAt(at - 1)))) continue;
    for (let i = 0; i < several.length; i++) {
      const sign = several[i];
      let n = 0;
      while (n < sign.length && at + n < text.length && lower(text.charCodeAt(at + n)) == sign.charCodeAt(n)) n++;
      if (n == sign.length && !(letter(sign.charCodeAt(n - 1)) && at + n < text.length && letter(lower(text.charCodeAt(at + n))))) return sign;
    }
  }
  return "";
}

function lower(c: i32): i32 { return c >= 0x41 && c <= 0x5a ? c + 32 : c; }

function letter(c: i32): bool { return c >= 0x61 && c <= 0x7a || c >= 0x30 && c <= 0x39 || c == 0x5f; }

function text(): string {
  const keys = ["/command", "/cmd", "/script", "/code", ""];
  for (let i = 0; i < keys.length; i++) {
    const found = get("/call/arguments" + keys[i]);
    if (found !== null) return found;
  }
  return "";
}

export function guard_check_v1(): i32 {
  const opaque = get("/call/shell/opaque");
  const start = ["/call/arguments/workdir", "/call/arguments/cwd"];
  for (let i = 0; i < start.length; i++) {
    const dir = get(start[i]);
    if (dir !== null && dir != "") dirs.push(dir);
  }
  let doubt = false, count = 0;
  if (opaque !== null) {
    const list = new Commands();
    for (let argv = list.next(); argv !== null; argv = list.next()) {
      if (argv.length == 0) continue;
      count++;
      const found = command(argv);
      if (found != "") return refuse(found);
      doubt = doubt || unseen(argv);
    }
  }
  for (let i = 0; ; i++) {
    const op = get("/call/paths/" + i.toString() + "/op");
    if (op === null) break;
    if (op != "write") continue;
    const path = get("/call/paths/" + i.toString() + "/path")!;
    unknown = unknown || path.includes("$");
    const found = written(path);
    if (found != "") return refuse(found);
  }
  if (opaque === null) return PASS;
  const unread = opaque == "true";
  const setting = get("/config/opaque");
  if ((setting === null || setting == "search") && (doubt || unread && (unknown || count == 0))) {
    const found = speaks(text());
    if (found != "") return deny("this command cannot be read to the end, and its text speaks of writing to " + found + ". Write each command plainly, without variables and code in other languages");
  }
  if (unread && setting !== null && setting == "ask") return ask("this command cannot be read to the end: a part of it is decided only when it runs");
  if (unread && setting !== null && setting == "deny") return deny("this command cannot be read to the end: write it without variables, patterns and substitutions");
  return PASS;
}

export function guard_config_v1(): i32 {
  const opaque = get("/config/opaque"), allow = get("/config/allow");
  let bytes = 2, count = 0;
  if (opaque !== null) { bytes += '"opaque":""'.length + opaque.length; count++; }
  if (allow !== null) { bytes += '"allow":'.length + String.UTF8.byteLength(allow); count++; }
  if (opaque !== null && !["search", "pass", "ask", "deny"].includes(opaque) || allow !== null && !allow.startsWith("[") ||
    String.UTF8.byteLength(get("/config")!) != bytes + (count > 1 ? 1 : 0)) {
    return deny("the settings are allow, a list of the ends of paths, and opaque: search, pass, ask or deny");
  }
  return PASS;
}
