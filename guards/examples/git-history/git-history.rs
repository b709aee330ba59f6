//! Git-history denies what rewrites or drops history that others may have, or
//! that can't be got back: force pushes, deleted remote branches, filters,
//! hard resets to other commits, expired reflogs, deleted repositories.
//!
//! Each rule has a name. Configuration: allow, a list of rules that are not
//! applied ("push-lease"); deny, a list of rules that are applied beside the
//! default ones ("amend", "rebase"); opaque (docs/guards.md).
#![no_std]

#[path = "../../sdk/rust/guardproxy.rs"]
mod guardproxy;
#[path = "../shell/shell.rs"]
mod shell;

use guardproxy::{commands, deny, get, number, PASS};
use shell::{among, base, configured, dynamic, kinds, mentions, mentions_each, only_settings, opaque_answer, opaque_setting, room, text, unseen, Opaque};

const RULES: &str = "push-force push-lease push-delete push-mirror filter reset reflog prune branch tag ref stash git-dir amend rebase";
const OPTIONAL: &str = "amend rebase";

/// A rule that a command falls under, and what would be accepted.
type Found = (&'static str, &'static str);

const FORCE: Found = ("push-force", "push new commits on top, or to a branch of a new name");
const RESET: Found = ("reset", "make a branch of what is there first, or use git revert or git stash");

/// The options of one letter among the words, and the long ones that begin so.
fn option(args: &[&str], letter: char, long: &[&str]) -> bool {
    args.iter().take_while(|w| **w != "--").any(|w| match w.strip_prefix("--") {
        Some(name) => {
            let name = name.split('=').next().unwrap_or("");
            // Git takes any beginning of a long option that is clear.
            name.len() >= 3 && long.iter().any(|l| l.starts_with(name))
        }
        None => w.len() > 1 && w.starts_with('-') && w.contains(letter),
    })
}

fn push(args: &[&str]) -> Option<Found> {
    let lease = args.iter().any(|w| w.starts_with("--force-w"));
    let force = args.iter().any(|w| w.starts_with("--forc") && !w.starts_with("--force-w") && !w.starts_with("--force-i"));
    let cluster = args.iter().any(|w| w.starts_with('-') && !w.starts_with("--") && w.contains('f') && !w.starts_with("-o"));
    // $(echo -f), ${X:--force}
    let expanded = args.iter().any(|w| dynamic(w) && (mentions(w, "-f") || mentions(w, "--force")));
    if expanded || force || cluster || args.iter().any(|w| w.starts_with('+')) {
        return Some(FORCE);
    }
    if lease {
        return Some(("push-lease", FORCE.1));
    }
    if option(args, '\0', &["mirror", "prune"]) {
        return Some(("push-mirror", "push one branch by its name"));
    }
    if option(args, 'd', &["delete"]) || args.iter().any(|w| w.starts_with(':') && w.len() > 1) {
        return Some(("push-delete", "leave the branches of the remote to the user"));
    }
    None
}

/// Git's own commands; another word may be an alias.
const KNOWN: &str = "add am annotate apply archive bisect blame branch bundle cat-file check-ignore check-ref-format checkout cherry cherry-pick clean clone commit commit-tree config count-objects credential describe diff diff-files diff-index diff-tree difftool fast-export fast-import fetch filter-branch filter-repo for-each-ref format-patch fsck gc grep hash-object help init lfs log ls-files ls-remote ls-tree maintenance merge merge-base merge-file merge-tree mergetool mv name-rev notes prune pull push range-diff read-tree rebase reflog remote repack replace reset restore rev-list rev-parse revert rm send-pack shortlog show show-branch show-ref sparse-checkout stash status submodule switch symbolic-ref tag update-index update-ref var verify-commit version whatchanged worktree write-tree";

/// The path lies in what holds the history.
fn inner(path: &str) -> bool {
    [".git/objects", ".git/refs", ".git/logs", ".git/packed-refs"].iter().any(|place| path.contains(place))
}

/// A setting that makes a plain push a forced one.
fn setting(word: &str) -> Option<Found> {
    let word = word.trim_start_matches('-');
    let forced = word.starts_with("remote.") && (word.contains(".push=+") || word.contains(".mirror"));
    forced.then(|| FORCE)
}

/// A refspec of fetch that goes over a local branch. The first word is the remote.
fn overwrites(args: &[&str]) -> bool {
    let force = option(args, 'f', &["force"]);
    args.iter().filter(|w| !w.starts_with('-')).skip(1).any(|spec| match spec.split_once(':') {
        Some((from, to)) => (force || from.starts_with('+')) && !to.is_empty() && (to.starts_with("refs/heads/") || !to.starts_with("refs/")),
        None => false,
    })
}

fn git(sub: &str, args: &[&str]) -> Option<Found> {
    let first = args.first().copied().unwrap_or("");
    let found = match sub {
        "push" | "send-pack" => return push(args),
        "filter-branch" | "filter-repo" | "fast-import" | "replace" => Some(("filter", "add a commit that changes the files")),
        "reset" => {
            let to = args.iter().find(|w| !w.starts_with('-')).copied().unwrap_or("HEAD");
            (option(args, '\0', &["hard", "keep", "merge"]) && !among(to, "HEAD @")).then(|| RESET)
        }
        "reflog" => among(first, "expire delete").then(|| ("reflog", "leave the reflog as it is")),
        "remote" => args.iter().any(|w| w.starts_with("--mirror") && *w != "--mirror=fetch").then(|| ("push-mirror", "add the remote without --mirror")),
        "lfs" => (first == "migrate").then(|| ("filter", "track large files from now on")),
        "prune" => Some(("prune", "leave unreachable commits to git")),
        "gc" => option(args, '\0', &["prune"]).then(|| ("prune", "use git gc without --prune")),
        "branch" => {
            let drops = option(args, 'D', &[]) || option(args, 'f', &["force"]) || option(args, 'M', &[]) || option(args, 'C', &[]);
            drops.then(|| ("branch", "use git branch -d, which keeps what is not merged, or a new name"))
        }
        "tag" => option(args, 'f', &["force"]).then(|| ("tag", "make a tag of a new name")),
        "update-ref" | "symbolic-ref" => (sub == "update-ref" || option(args, 'd', &["delete"])).then(|| ("ref", "use git branch and git tag")),
        "stash" => among(first, "clear").then(|| ("stash", "drop the stashes that you made, by their number")),
        "commit" => option(args, '\0', &["amend"]).then(|| ("amend", "make a new commit")),
        "rebase" if option(args, '\0', &["root"]) => Some(("filter", "add a commit that changes the files")),
        "rebase" => (!among(first, "--abort --continue --skip --quit")).then(|| ("rebase", "use git merge")),
        // Of a local branch: what is fetched goes over it.
        "fetch" | "pull" if overwrites(args) => Some(("branch", "fetch without writing to local branches, and merge")),
        "pull" => option(args, 'r', &["rebase"]).then(|| ("rebase", "use git pull --no-rebase")),
        "config" => {
            let forced = args.windows(2).any(|w| w[0].starts_with("remote.") && (w[0].ends_with(".push") && w[1].starts_with('+') || w[0].ends_with(".mirror") && w[1] != "false"));
            forced.then(|| FORCE)
        }
        _ => None,
    };
    found
}

/// What one command falls under. Doubt: an alias, or a word that is not known,
/// may turn it into something else.
fn judge(argv: &[&'static str], doubt: &mut bool) -> Option<Found> {
    let mut space = [0; 64];
    let name = base(argv[0], &mut space);
    *doubt |= unseen(argv, name, kinds(name, |_| {}));
    let git_dir = |w: &&str| {
        let w = if w.ends_with("/*") { &w[..w.len() - 2] } else { w };
        let w = w.trim_end_matches(&['/'][..]);
        let last = w.rsplit('/').next().unwrap_or("");
        let pattern = last.find(&['*', '?', '['][..]).map_or(false, |at| at > 0 && ".git".starts_with(&last[..at]));
        pattern || w == ".git" || w.ends_with("/.git") || inner(w) || w.contains("rev-parse --git-")
    };
    let finds = name == "find" && (argv.contains(&"-delete") || argv.windows(2).any(|w| w[0].starts_with("-exec") && among(w[1], "rm rmdir unlink shred")));
    if (among(name, "rm rmdir unlink shred trash mv") || finds) && argv[1..].iter().any(git_dir) {
        return Some(("git-dir", "leave .git alone"));
    }
    let written = among(name, "cp ln install rsync") && argv.last().map_or(false, |w| inner(w)) || among(name, "tee truncate dd") && argv[1..].iter().any(|w| inner(w));
    if written {
        return Some(("git-dir", "leave .git alone"));
    }
    let runs = (name.starts_with("python") || name == "java") && argv.iter().any(|w| w.ends_with("git-filter-repo") || w.ends_with("bfg.jar"));
    if name == "gh" && argv.contains(&"api") && argv.iter().any(|w| w.contains("git/refs")) && argv.iter().any(|w| w.contains("force")) {
        return Some(FORCE);
    }
    if runs || name == "bfg" {
        return git("filter-repo", &[]);
    }
    if name == "gh" && argv.len() > 2 && argv[1] == "repo" && argv[2] == "sync" && argv.contains(&"--force") {
        return Some(FORCE);
    }
    let mut at = 1;
    let sub = match name.strip_prefix("git-") {
        None if name != "git" && name != "hub" => return None,
        Some(sub) => sub,
        None => loop {
            let word = argv.get(at)?;
            at += 1;
            match *word {
                "-c" | "--config-env" => {
                    let value = argv.get(at)?;
                    *doubt |= value.starts_with("alias.") || dynamic(value);
                    if let found @ Some(_) = setting(value) {
                        return found;
                    }
                    at += 1;
                }
                "-C" | "--git-dir" | "--work-tree" | "--namespace" | "--exec-path" | "--super-prefix" => at += 1,
                w if w.starts_with("-") => *doubt |= w.starts_with("--config-env="),
                w => break w,
            }
        },
    };
    let args = &argv[at..];
    *doubt |= dynamic(sub) || !among(sub, KNOWN) || sub == "config" && args.iter().any(|w| w.starts_with("alias.")) || among(sub, "push reset branch") && args.iter().any(|w| dynamic(w) && !w.contains('/'));
    git(sub, args)
}

fn applies(rule: &str) -> bool {
    !configured("allow", rule) && (!among(rule, OPTIONAL) || configured("deny", rule))
}

/// A path inside of the history that the call writes.
fn written() -> bool {
    let (mut op, mut digits) = ([0; 8], [0; 10]);
    for i in 0..1000 {
        let i = number(i, &mut digits);
        match get(&["/call/paths/", i, "/op"], &mut op) {
            None => return false,
            Some("write") => {}
            Some(_) => continue,
        }
        if get(&["/call/paths/", i, "/path"], room()).map_or(false, inner) {
            return true;
        }
    }
    false
}

#[no_mangle]
pub extern "C" fn guard_check_v1() -> i32 {
    if written() && applies("git-dir") {
        return deny(&["what is written would change history (rule git-dir). Instead: leave .git alone"]);
    }
    let unread = match get(&["/call/shell/opaque"], &mut [0; 8]) {
        None => return PASS,
        Some(opaque) => opaque == "true",
    };
    let (mut doubt, mut fed, mut count) = (false, false, 0);
    let verdict = commands(|argv| {
        count += 1;
        // What git does is not in the words, and they force it.
        let hidden = dynamic(argv[0]) || argv[0] == "git" && argv[1..].iter().find(|w| !w.starts_with('-')).map_or(false, |w| dynamic(w));
        fed |= argv[0] == "xargs" && argv.contains(&"push") || hidden && option(&argv[1..], 'f', &["force"]);
        let (rule, instead) = judge(argv, &mut doubt).filter(|found| applies(found.0))?;
        let sub = if rule == "git-dir" { "this" } else { "git" };
        Some(deny(&[sub, " would rewrite or drop history (rule ", rule, "). Instead: ", instead]))
    });
    if let Some(verdict) = verdict {
        return verdict;
    }
    if opaque_setting() == Some(Opaque::Search) && (doubt || unread && count == 0) {
        let all = text();
        let signs = [
            ("push --force", "push-force"), ("push -f", "push-force"), ("push --force-with-lease", "push-lease"), ("--mirror", "push-mirror"),
            ("filter-branch", "filter"), ("filter-repo", "filter"), ("reset --hard", "reset"), ("reflog expire", "reflog"),
            ("gc --prune", "prune"), ("branch -D", "branch"), ("branch -fd", "branch"), ("branch -df", "branch"), ("branch -d -f", "branch"), ("branch --delete --force", "branch"), ("rm -rf .git", "git-dir"), ("push --delete", "push-delete"),
        ];
        let hidden = [("--force", "push-force"), ("=-f", "push-force"), ("='-f", "push-force"), ("=\"-f", "push-force"), ("=+", "push-force"), ("--hard", "reset")];
        let mut found = None;
        mentions_each(all, &signs.map(|s| s.0), |n| {
            found = applies(signs[n].1).then(|| signs[n].0);
            found.is_some()
        });
        if found.is_none() && mentions(all, "git") && (mentions(all, "push") || mentions(all, "reset")) {
            mentions_each(all, &hidden.map(|s| s.0), |n| {
                found = applies(hidden[n].1).then(|| hidden[n].0);
                found.is_some()
            });
        }
        if found.is_none() && fed && mentions(all, "push") && mentions(all, "-f") && applies("push-force") {
            found = Some("push and -f");
        }
        if let Some(sign) = found {
            return deny(&["this command cannot be read to the end, and its text speaks of ", sign, ". Write each git command plainly, without variables"]);
        }
    }
    opaque_answer(unread)
}

#[no_mangle]
pub extern "C" fn guard_config_v1() -> i32 {
    kinds("", |_| {}); // all names are filed now, once
    if opaque_setting().is_none() || !only_settings(&["opaque", "allow", "deny"]) {
        return deny(&["the settings are allow and deny, lists of rules, and opaque: search, pass, ask or deny"]);
    }
    let mut space = [0; 64];
    for name in ["allow", "deny"] {
        for i in 0.. {
            match get(&["/config/", name, "/", number(i, &mut [0; 10])], &mut space) {
                None => break,
                Some(rule) if among(rule, RULES) => {}
                Some(_) => return deny(&[name, " names a rule that does not exist. The rules are ", RULES]),
            }
        }
    }
    PASS
}
