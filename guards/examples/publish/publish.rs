//! Publish denies what reaches people or machines outside of the session:
//! releasing packages, images and sites, and tearing down infrastructure, data
//! bases and accounts. Dry runs and help pass.
//!
//! Each rule is a program and its subcommand ("kubectl delete"). Configuration:
//! allow, a list of them that are not applied; opaque (docs/guards.md).
#![no_std]

#[path = "../../sdk/rust/guardproxy.rs"]
mod guardproxy;
#[path = "../shell/shell.rs"]
mod shell;

use guardproxy::{commands, deny, get, join, PASS};
use shell::{among, base, configured, dynamic, kinds, mentions, mentions_each, only_settings, opaque_answer, opaque_setting, text, unseen, Names, Opaque, OWN};

/// The programs, by alternatives, and the words after them. A star at the end
/// of a word stands for any rest.
const RULES: &[&str] = &[
    // Packages.
    "npm|pnpm|yarn|bun publish|pub|publ|publi|publis|unpublish|deprecate", "yarn npm publish", "npm|pnpm access|owner|token|dist-tag", "npm|yarn|pnpm run|run-script publish|release",
    "lerna publish", "changeset publish", "semantic-release", "release-it", "np",
    "cargo publish|yank|owner", "twine upload", "poetry|uv|flit|hatch|pdm publish", "setup.py upload|register", "gem push|yank", "rake|rails release",
    "mvn|mvnw deploy|release:perform", "gradle|gradlew publish*|upload*", "sbt publish*", "lein deploy", "dotnet nuget push|delete", "nuget push|delete",
    "pod trunk push|delete", "dart|flutter pub publish", "mix hex.publish", "cabal|stack upload", "vsce|ovsx publish|unpublish", "goreleaser release", "jreleaser *release",
    "luarocks|opam|conan|jsr upload|publish",
    // Images and releases.
    "docker|podman|nerdctl|buildah|helm|crane|oras|ko push|publish", "docker compose|image push", "docker-compose push", "skopeo copy|delete|sync", "crane delete|copy",
    "gh release create|delete|upload|edit", "gh repo delete|archive|rename", "gh pr merge", "glab release create|delete", "glab mr merge", "hub release create|delete",
    // Sites and services.
    "wrangler deploy|publish|delete|rollback", "vercel deploy|remove|rm|promote|rollback", "netlify deploy|sites:delete", "firebase deploy", "fly|flyctl deploy|destroy", "fly|flyctl apps destroy", "heroku apps:destroy|pg:reset|container:release",
    "serverless|sls deploy|remove", "cdk deploy|destroy", "sam deploy|delete", "eb deploy|terminate", "copilot deploy|svc", "gcloud app|run|functions deploy", "eas submit|update", "fastlane release|deliver|pilot",
    // Infrastructure.
    "terraform|tofu|terragrunt|cdktf destroy|apply|force-unlock|taint", "terragrunt run-all destroy|apply", "terraform|tofu|terragrunt state rm|mv|push", "terraform|tofu workspace delete", "pulumi destroy|up", "pulumi stack rm",
    "kubectl|oc delete|drain|cordon", "kubectl|oc replace --force", "kubectl|oc apply --prune", "turbo|nx release|publish", "turbo|nx run publish|release", "helm|helmfile uninstall|un|delete|del|destroy|rollback", "kustomize delete", "eksctl delete", "kops delete", "flux uninstall|delete", "argocd app delete", "vagrant destroy",
    "aws s3 rm|rb", "gsutil rm|rb", "s3cmd del|rb", "mc rm|rb", "rclone delete|purge",
    // Data.
    "dropdb", "dropuser", "mysqladmin drop", "redis-cli|valkey-cli flushall|flushdb|shutdown", "rails|rake db:drop*|db:reset|db:purge", "prisma migrate reset", "prisma db push", "artisan migrate:fresh|migrate:reset|db:wipe", "manage.py flush|reset_db", "sequelize|sequelize-cli db:drop", "mongosh|mongo --eval",
];

/// Programs whose subcommands say by themselves that something goes.
const CLOUDS: &str = "aws gcloud az doctl oci linode-cli hcloud scw ibmcloud aliyun flyctl fly heroku civo vultr-cli bq";
/// Programs that take statements of a data base.
const CLIENTS: &str = "psql mysql mariadb sqlite3 cqlsh clickhouse-client clickhouse mongosh mongo sqlcmd duckdb snowsql bq";
const STATEMENTS: &[&str] = &["drop database", "drop table", "drop schema", "drop user", "truncate table", "truncate", "dropdatabase", "delete from"];

fn fits(pattern: &str, word: &str) -> bool {
    // A task of a subproject, as in :app:publish.
    let word = if word.starts_with(':') { word.rsplit(':').next().unwrap_or("") } else { word };
    pattern.split('|').any(|p| match (p.strip_suffix('*'), p.strip_prefix('*')) {
        (Some(start), _) => word.starts_with(start),
        (_, Some(end)) => word.ends_with(end),
        _ => p.eq_ignore_ascii_case(word),
    })
}

/// The words follow the program in order. Options may stand between them, each
/// with a value; any other word in between is another subcommand.
fn follow(mut patterns: core::str::Split<char>, args: &[&'static str], found: &mut [&'static str; 3]) -> bool {
    let mut next = patterns.next();
    let (mut n, mut value) = (1, false);
    for word in args {
        let pattern = match next {
            None => return true,
            Some(pattern) => pattern,
        };
        if fits(pattern, word) {
            if n < found.len() {
                found[n] = word;
            }
            n += 1;
            value = false;
            next = patterns.next();
        } else if word.starts_with('+') {
            // cargo +stable
        } else if word.starts_with('-') {
            value = !word.contains('=');
        } else if value {
            value = false;
        } else {
            return false;
        }
    }
    next.is_none()
}

/// What a command would do, as program and words; empty words are none.
fn judge(name: &str, args: &[&'static str]) -> Option<[&'static str; 3]> {
    let dry = args.iter().any(|w| matches!(*w, "--dry-run" | "--dryrun" | "--dry-run=client" | "--dry-run=server" | "--dry-run=true") || *w == "--snapshot" && name == "goreleaser");
    let wet = args.iter().any(|w| w.starts_with("--no-dry") || *w == "false" || w.ends_with("=false") || w.ends_with("=none"));
    let help = args.iter().any(|w| *w == "--help") || args.last() == Some(&"-h");
    let harmless = dry && !wet || help;
    if harmless {
        return None;
    }
    for rule in rules().of(name) {
        let mut words = RULES[rule as usize].split(' ');
        let program = words.next().unwrap_or("").split('|').find(|p| *p == name).unwrap_or("");
        let mut found = [program, "", ""];
        if follow(words, args, &mut found) {
            return Some(found);
        }
    }
    for cloud in CLOUDS.split(' ').filter(|c| *c == name) {
        let verb = args.iter().filter(|w| !w.starts_with('-')).take(6).find(|w| {
            ["delete", "destroy", "terminate", "purge", "deregister"].iter().any(|v| **w == *v || w.starts_with(v) && w.as_bytes().get(v.len()) == Some(&b'-'))
        });
        if let Some(verb) = verb {
            return Some([cloud, verb, ""]);
        }
    }
    for client in CLIENTS.split(' ').filter(|c| *c == name) {
        for statement in STATEMENTS {
            if args.iter().any(|w| mentions(w, statement)) {
                return Some([client, statement, ""]);
            }
        }
    }
    let has = |word: &str| args.contains(&word);
    match name {
        "docker" | "podman" | "nerdctl" | "buildah" if (has("build") || has("buildx")) && args.iter().any(|w| *w == "--push" || w.contains("type=registry") || w.contains("push=true")) => Some(["docker", "build", "--push"]),
        "aws" if has("s3") && has("sync") && has("--delete") => Some(["aws", "s3", "sync --delete"]),
        "vercel" if has("--prod") => Some(["vercel", "--prod", ""]),
        "gh" if has("api") && args.iter().any(|w| w.eq_ignore_ascii_case("delete") || w.eq_ignore_ascii_case("-xdelete") || w.eq_ignore_ascii_case("--method=delete")) => Some(["gh", "api", "DELETE"]),
        "kubectl" | "oc" if has("scale") && (has("--replicas=0") || args.windows(2).any(|w| w[0] == "--replicas" && w[1] == "0")) => Some(["kubectl", "scale", "--replicas=0"]),
        _ => None,
    }
}

/// The rules of each program, by their places in the list.
fn rules() -> &'static Names<1024> {
    static mut OF: Names<1024> = Names::EMPTY;
    unsafe { &mut OF }.filled(|of| {
        for (n, rule) in RULES.iter().enumerate() {
            rule.split(' ').next().unwrap_or("").split('|').for_each(|program| of.add(program, n as u8));
        }
    })
}

/// Programs that a rule is about.
fn subjects(add: &mut dyn FnMut(&'static str)) {
    CLOUDS.split(' ').chain(CLIENTS.split(' ')).for_each(|program| add(program));
}

/// Programs that start one that a rule may be about.
fn starts(name: &str) -> bool {
    name.starts_with("python") || name == "php" || name == "node" || name == "ruby"
}

fn command(argv: &[&'static str], doubt: &mut bool) -> Option<i32> {
    let mut space = [0; 64];
    let name = base(argv[0], &mut space);
    let kind = kinds(name, subjects);
    let subject = kind & OWN != 0 || starts(name) || rules().of(name).next().is_some();
    // Statements may come from the input of a client.
    *doubt |= kind & OWN != 0 && among(name, CLIENTS);
    *doubt |= unseen(argv, name, kind) || subject && argv.get(1).map_or(false, |w| dynamic(w) && !w.contains('/'));
    if !subject {
        return None;
    }
    let (mut name, mut args) = (name, &argv[1..]);
    if starts(name) {
        // A module or a script in the place of a program.
        let at = args.iter().position(|w| *w == "-m").map_or_else(|| args.iter().position(|w| !w.starts_with('-')), |m| Some(m + 1))?;
        let script = args.get(at)?;
        name = script.rsplit('/').next().unwrap_or("");
        args = &args[at + 1..];
    }
    if name == "yarn" && args.first() == Some(&"workspace") {
        args = args.get(2..).unwrap_or(&[]);
    } else if name == "yarn" && args.first() == Some(&"workspaces") {
        args = args.iter().position(|w| matches!(*w, "npm" | "publish" | "run")).map_or(&[], |at| &args[at..]);
    }
    let mut joined = [0; 128];
    let found = judge(name, args)?;
    let rule = match found {
        [program, "", _] => program,
        [program, word, ""] => join(&mut joined, &[program, " ", word]),
        [program, word, more] => join(&mut joined, &[program, " ", word, " ", more]),
    };
    if configured("allow", rule) {
        return None;
    }
    Some(deny(&[rule, " reaches beyond this session, and is left to the user. Prepare it, try it with a dry run where there is one, and say what to run"]))
}

#[no_mangle]
pub extern "C" fn guard_check_v1() -> i32 {
    let unread = match get(&["/call/shell/opaque"], &mut [0; 8]) {
        None => return PASS,
        Some(opaque) => opaque == "true",
    };
    let (mut doubt, mut count) = (false, 0);
    let verdict = commands(|argv| {
        count += 1;
        command(argv, &mut doubt)
    });
    if let Some(verdict) = verdict {
        return verdict;
    }
    if opaque_setting() == Some(Opaque::Search) && (doubt || unread && count == 0) {
        if let Some(sign) = spoken(text()) {
            return deny(&["this command cannot be read to the end, and its text speaks of ", sign, ". Write each command plainly, without variables"]);
        }
    }
    opaque_answer(unread)
}

/// Programs and subcommands that are known best: what a text is searched for.
const SIGNS: &[&str] = &[
    "npm publish", "pnpm publish", "yarn publish", "yarn npm publish", "bun publish", "cargo publish", "twine upload", "poetry publish", "uv publish", "gem push", "docker push", "podman push",
    "gh release create", "gh repo delete", "helm uninstall", "helm push", "vercel --prod", "wrangler deploy", "firebase deploy", "netlify deploy", "fly deploy", "serverless deploy", "cdk deploy",
    "terraform destroy", "terraform apply", "tofu destroy", "tofu apply", "pulumi destroy", "pulumi up", "cdk destroy", "kubectl delete", "kubectl drain", "oc delete", "eksctl delete",
    "aws s3 rm", "aws s3 rb", "terminate-instances", "delete-stack", "delete-db-instance", "az group delete", "gcloud projects delete", "dropdb", "drop database", "drop table", "flushall", "db:drop",
];

/// The first of them that a text speaks of, and that is not allowed. A
/// subcommand may stand in a variable: then program and word are in any place.
fn spoken(all: &str) -> Option<&'static str> {
    let mut found = None;
    mentions_each(all, SIGNS, |n| {
        found = (!configured("allow", SIGNS[n])).then(|| SIGNS[n]);
        found.is_some()
    });
    if found.is_some() {
        return found;
    }
    let mut programs = [false; 8];
    const APART: [(&str, &str); 8] = [("npm", "publish"), ("cargo", "publish"), ("twine", "upload"), ("docker", "push"), ("terraform", "destroy"), ("kubectl", "delete"), ("tofu", "destroy"), ("pulumi", "destroy")];
    mentions_each(all, &APART.map(|a| a.0), |n| {
        programs[n] = true;
        false
    });
    let n = (0..APART.len()).find(|&n| programs[n] && mentions(all, APART[n].1))?;
    SIGNS.iter().find(|s| s.starts_with(APART[n].0) && s.ends_with(APART[n].1) && !configured("allow", s)).copied()
}

#[no_mangle]
pub extern "C" fn guard_config_v1() -> i32 {
    kinds("", subjects); // all names are filed now, once
    rules();
    if opaque_setting().is_none() || !only_settings(&["opaque", "allow"]) {
        return deny(&["the settings are allow, a list of commands, and opaque: search, pass, ask or deny"]);
    }
    PASS
}
