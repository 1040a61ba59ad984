//! What each chore does, in steps.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::reqs::Map;
use crate::sources::Functions;
use crate::steps::{Steps, cargo, must, target_dir};
use crate::tools::{self, Need};

/// How many seeds of the simulation have to hold.
pub(crate) const SEEDS: u64 = 1000;

/// The package of the whole-system tests.
const SYSTEM: &str = "askd-tests";

/// What every build, lint and test is called with: one set of features, so that nothing is compiled twice.
const ALL: [&str; 3] = ["--workspace", "--features", "xtask/bench"];

/// The target on which the core has to build as well; it knows no clock, thread or file.
const WASM: &str = "wasm32-unknown-unknown";

/// How the hook that ships is linked.
const FIXED: [&str; 5] = [
    "target-feature=+crt-static",
    "relocation-model=static",
    "relro-level=off",
    "lto=fat",
    "codegen-units=1",
];

/// Everything that has to pass.
pub(crate) fn test(root: &Path, fast: bool) -> Result<()> {
    let needs: &[Need] = if fast { &[Need::Debian, Need::CargoDeny] } else { &Need::ALL };
    tools::ensure(root, needs)?;

    let mut steps = Steps::default();
    // First, and alone in refusing: any later command would bring the file up to date unasked.
    steps.run("Cargo.lock is current", || must(cargo(root).args(["fetch", "--locked"])));
    steps.run("requirement map", || reqs(root, false));
    steps.run("format", || must(cargo(root).args(["fmt", "--all", "--check"])));
    steps.run("licences, bans, sources", || {
        must(cargo(root).args([
            "deny",
            "--locked",
            "check",
            "--hide-inclusion-graph",
            "bans",
            "licenses",
            "sources",
        ]))
    });
    steps.run("lints", || {
        must(cargo(root).arg("clippy").args(ALL).args(["--all-targets", "--", "-D", "warnings"]))
    });
    if tools::has_target(WASM) {
        steps.run("core without a system", || {
            must(cargo(root).args(["check", "-p", "askd-core", "--target", WASM]))
        });
    } else {
        steps.skip("core without a system", "the target wasm32-unknown-unknown is not installed");
    }
    if !steps.run("build", || must(cargo(root).arg("build").args(ALL).arg("--all-targets"))) {
        for step in ["tests", "documentation tests", "simulation", "whole system"] {
            steps.skip(step, "the build failed");
        }
        return steps.finish();
    }
    steps.run("tests", || run_tests(root, Which::Parts, None));
    steps.run("documentation tests", || must(cargo(root).arg("test").args(ALL).arg("--doc")));
    // The one that was just built: `cargo run` would build it again with the features of its package alone.
    steps.run("simulation", || {
        let world = target_dir(root).join("debug/askd-sim");
        must(Command::new(world).arg("--seeds").arg(SEEDS.to_string()).current_dir(root))
    });
    if fast {
        steps.skip("whole system", "--fast");
    } else {
        steps.run("whole system", || run_tests(root, Which::System, None));
    }
    steps.finish()
}

/// Only the whole-system tests.
pub(crate) fn e2e(root: &Path, filter: Option<&str>) -> Result<()> {
    tools::ensure(root, &[Need::Debian, Need::Agents])?;
    must(cargo(root).arg("build").args(ALL).arg("--all-targets"))?;
    run_tests(root, Which::System, filter)
}

/// The simulated world: a number of seeds, or one replayed.
pub(crate) fn sim(root: &Path, seeds: u64, seed: Option<u64>) -> Result<()> {
    let mut command = cargo(root);
    command.args(["run", "--quiet", "-p", "askd-sim", "--bin", "askd-sim", "--"]);
    match seed {
        Some(seed) => command.arg("--seed").arg(seed.to_string()),
        None => command.arg("--seeds").arg(seeds.to_string()),
    };
    must(&mut command)
}

/// What a package of askd has in it, in `target/dist`: `askd` as it is built by default, and `askd-hook` linked
/// statically. Agents start the hook for every call, and most of the time of such a short program goes to its start:
/// to the loader, to addresses that are filled in, to pages that are touched the first time, and to what the C library
/// asks the processor. So it is at a fixed place and in one piece.
/// `askd` itself stays dynamic, since looking up names needs the libraries of the system.
pub(crate) fn dist(root: &Path) -> Result<()> {
    let release = ["--release", "-p", "askd", "--bin"];
    let place = target_dir(root).join("dist");
    fs::create_dir_all(&place).with_context(|| format!("{} cannot be made", place.display()))?;
    let copy = |built: &str, name: &str| {
        let built = target_dir(root).join(built);
        // Beside it and then renamed: a hook that runs just now keeps the file that it was started from.
        let (fresh, kept) = (place.join(format!("{name}.new")), place.join(name));
        fs::copy(&built, &fresh)
            .and_then(|_| fs::rename(&fresh, &kept))
            .with_context(|| format!("{} cannot be copied to {}", built.display(), kept.display()))
    };
    must(cargo(root).arg("build").args(release).arg("askd"))?;
    copy("release/askd", "askd")?;
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let package = ["--release", "-p", "askd-hook", "--bin", "hook-alone", "--target", &target, "--"];
    must(cargo(root).arg("rustc").args(package).args(FIXED.iter().flat_map(|option| ["-C", option])))?;
    copy(&format!("{target}/release/hook-alone"), "askd-hook")?;
    println!("{} and askd-hook beside it", place.join("askd").display());
    Ok(())
}

/// The measurements, by a release build of this program beside the release build of askd.
pub(crate) fn bench(root: &Path, quick: bool, only: &[String]) -> Result<()> {
    dist(root)?;
    let packages = ["-p", "askd", "-p", "xtask", "--features", "xtask/bench"];
    must(cargo(root).args(["build", "--release"]).args(packages))?;
    let mut command = Command::new(target_dir(root).join("release/xtask"));
    command.args(["bench-part", "run"]).current_dir(root);
    if quick {
        command.arg("--quick");
    }
    command.args(only.iter().flat_map(|part| ["--only", part]));
    must(&mut command)
}

/// The requirement map against the tree.
pub(crate) fn reqs(root: &Path, write: bool) -> Result<()> {
    let path = root.join("docs/requirements.md");
    let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    let functions = Functions::read(root)?;
    let mut map = Map::parse(&text);
    if write {
        map.fill(&functions);
        fs::write(&path, map.print()).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    let mut unlisted: BTreeMap<String, usize> = BTreeMap::new();
    for (id, _) in map.unlisted(&functions) {
        *unlisted.entry(id).or_default() += 1;
    }
    for (id, count) in unlisted {
        println!(
            "note: {count} tests named after {id} are not in its row; `cargo xtask reqs --write` puts them there"
        );
    }
    let faults = map.check(&functions);
    for fault in &faults {
        println!("docs/requirements.md: {fault}");
    }
    if !faults.is_empty() {
        bail!("{} faults in docs/requirements.md", faults.len());
    }
    let (served, all) = map.count();
    println!("{served} of {all} requirements are served, each with tests that exist");
    Ok(())
}

/// Which tests to run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    /// Those of the crates.
    Parts,
    /// Those with real agents.
    System,
}

fn run_tests(root: &Path, which: Which, filter: Option<&str>) -> Result<()> {
    let mut command = cargo(root);
    if tools::has_nextest(root) {
        // A filter and not `--exclude`: the selection of packages decides the features, and with them what
        // has to be compiled again.
        let not = if which == Which::Parts { "not " } else { "" };
        command.args(["nextest", "run"]).args(ALL).args(["--no-fail-fast", "-E"]);
        command.arg(format!("{not}package({SYSTEM})"));
        command.args(filter);
    } else {
        command.arg("test").args(ALL).arg("--no-fail-fast");
        match which {
            Which::Parts => command.args(["--exclude", SYSTEM, "--lib", "--bins", "--tests"]),
            Which::System => {
                command = cargo(root);
                command.args(["test", "--no-fail-fast", "-p", SYSTEM])
            }
        };
        command.args(filter);
    }
    must(&mut command)
}
