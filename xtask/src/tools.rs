//! What the tests need beside the Rust toolchain, and how it gets onto the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::steps::{cargo, must, works};

/// The version of cargo-deny that is installed where none is found.
const CARGO_DENY: &str = "0.20.2";

/// Programs from Debian packages: program, package.
const DEBIAN: [(&str, &str); 5] =
    [("cc", "gcc"), ("tmux", "tmux"), ("node", "nodejs"), ("npm", "npm"), ("sqlite3", "sqlite3")];

/// One thing that can be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The programs of [`DEBIAN`].
    Debian,
    /// The pinned agents of tests/agents.
    Agents,
    /// `cargo deny`.
    CargoDeny,
}

impl Need {
    /// Everything, in the order of installing.
    pub(crate) const ALL: [Self; 3] = [Self::Debian, Self::Agents, Self::CargoDeny];
}

/// A missing thing: what is missing and the commands that bring it.
struct Missing {
    what: String,
    install: Vec<Command>,
    done: Option<Stamp>,
}

/// Written after the install, so that a changed lock file installs again.
struct Stamp {
    path: PathBuf,
    content: Vec<u8>,
}

/// Makes sure that the needs are there. As root or with `CI=true` it installs what is missing; otherwise it
/// fails with the exact lines to type.
pub(crate) fn ensure(root: &Path, needs: &[Need]) -> Result<()> {
    let mut missing = Vec::new();
    for need in needs {
        missing.extend(look(root, *need)?);
    }
    if missing.is_empty() {
        println!("nothing is missing");
        return Ok(());
    }
    if !may_install() {
        let mut lines = String::new();
        for item in &missing {
            for command in &item.install {
                lines.push_str("\n  ");
                lines.push_str(&line(root, command));
            }
        }
        let what: Vec<_> = missing.iter().map(|item| item.what.as_str()).collect();
        bail!("missing: {}. Install with:{lines}", what.join(", "));
    }
    for mut item in missing {
        println!("installing {}", item.what);
        for command in &mut item.install {
            must(command)?;
        }
        if let Some(stamp) = item.done {
            fs::write(&stamp.path, &stamp.content)
                .with_context(|| format!("{} cannot be written", stamp.path.display()))?;
        }
    }
    Ok(())
}

fn look(root: &Path, need: Need) -> Result<Option<Missing>> {
    match need {
        Need::Debian => Ok(look_debian()),
        Need::Agents => look_agents(root),
        Need::CargoDeny => Ok(look_cargo_deny(root)),
    }
}

fn look_debian() -> Option<Missing> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let absent = |program: &str| !std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    let packages: Vec<_> =
        DEBIAN.iter().filter(|(program, _)| absent(program)).map(|(_, package)| *package).collect();
    if packages.is_empty() {
        return None;
    }
    let mut update = Command::new("apt-get");
    update.arg("update");
    let mut install = Command::new("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive");
    install.args(["install", "-y", "--no-install-recommends"]).args(&packages);
    Some(Missing { what: packages.join(", "), install: vec![update, install], done: None })
}

fn look_agents(root: &Path) -> Result<Option<Missing>> {
    let dir = root.join("tests/agents");
    let lock = dir.join("package-lock.json");
    let content = fs::read(&lock).with_context(|| format!("{} cannot be read", lock.display()))?;
    let stamp = dir.join("node_modules/.installed-lock.json");
    if fs::read(&stamp).is_ok_and(|installed| installed == content) {
        return Ok(None);
    }
    let mut install = Command::new("npm");
    install.arg("ci").arg("--no-audit").arg("--no-fund").current_dir(&dir);
    Ok(Some(Missing {
        what: "the agents of tests/agents".to_owned(),
        install: vec![install],
        done: Some(Stamp { path: stamp, content }),
    }))
}

fn look_cargo_deny(root: &Path) -> Option<Missing> {
    if has_cargo_deny(root) {
        return None;
    }
    let mut install = cargo(root);
    install.args(["install", "--locked", "--version", CARGO_DENY, "cargo-deny"]);
    Some(Missing { what: "cargo-deny".to_owned(), install: vec![install], done: None })
}

/// Whether `cargo deny` can be run.
pub(crate) fn has_cargo_deny(root: &Path) -> bool {
    works(cargo(root).args(["deny", "--version"]))
}

/// Whether `cargo nextest` can be run. It is used where it is there and never installed: `cargo test` does as well.
pub(crate) fn has_nextest(root: &Path) -> bool {
    works(cargo(root).args(["nextest", "--version"]))
}

/// Whether the standard library for this target is installed.
pub(crate) fn has_target(target: &str) -> bool {
    let Ok(output) = Command::new("rustc").args(["--print", "sysroot"]).output() else {
        return false;
    };
    let sysroot = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Path::new(&sysroot).join("lib/rustlib").join(target).join("lib").is_dir()
}

fn may_install() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true") || is_root()
}

fn is_root() -> bool {
    // Real, effective, saved and file system uid stand behind the name; the effective one counts.
    fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| {
            let line = status.lines().find(|line| line.starts_with("Uid:"))?.to_owned();
            line.split_whitespace().nth(2).map(|uid| uid == "0")
        })
        .unwrap_or(false)
}

fn line(root: &Path, command: &Command) -> String {
    let mut words = Vec::new();
    if let Some(dir) = command.get_current_dir().and_then(|dir| dir.strip_prefix(root).ok())
        && !dir.as_os_str().is_empty()
    {
        words.push(format!("cd {} &&", dir.display()));
    }
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program()).to_string_lossy();
    if program == "apt-get" {
        words.push("sudo".to_owned());
    }
    words.push(program.into_owned());
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_count_as_installed_only_for_the_same_lock_file() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("tests/agents");
        fs::create_dir_all(dir.join("node_modules")).unwrap();
        fs::write(dir.join("package-lock.json"), "one").unwrap();
        let missing = look_agents(root.path()).unwrap().expect("not installed yet");
        let stamp = missing.done.unwrap();
        fs::write(&stamp.path, &stamp.content).unwrap();
        assert!(look_agents(root.path()).unwrap().is_none());
        fs::write(dir.join("package-lock.json"), "two").unwrap();
        assert!(look_agents(root.path()).unwrap().is_some());
    }

    #[test]
    fn the_printed_line_can_be_typed_in_the_workspace() {
        let root = Path::new("/w");
        let mut npm = Command::new("npm");
        npm.arg("ci").current_dir("/w/tests/agents");
        assert_eq!(line(root, &npm), "cd tests/agents && npm ci");
        let mut apt = Command::new("apt-get");
        apt.args(["install", "-y", "tmux"]);
        assert_eq!(line(root, &apt), "sudo apt-get install -y tmux");
        let mut cargo = Command::new("/some/where/cargo");
        cargo.arg("install").current_dir("/w");
        assert_eq!(line(root, &cargo), "cargo install");
    }
}
