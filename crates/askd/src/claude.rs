//! Claude Code as it is installed here: its settings files, its version, the permission mode that counts.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use askd_hook::claude::settings::{Findings, SettingsError, inspect};

use crate::failure::Failure;

/// For `claude --version`.
const VERSION_PATIENCE: Duration = Duration::from_secs(5);

/// The directory of the person's own settings.
pub(crate) fn config_dir() -> Result<PathBuf, Failure> {
    let given = std::env::var_os("CLAUDE_CONFIG_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let home = || std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    given
        .or_else(|| Some(home()?.join(".claude")))
        .ok_or_else(|| Failure::wrong_use("no home directory: set HOME, or CLAUDE_CONFIG_DIR"))
}

/// The settings files that count here, the one that beats the others first.
pub(crate) fn settings_files(config_dir: &Path, project: Option<&Path>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    if let Some(project) = project {
        files.push(project.join(".claude/settings.local.json"));
        files.push(project.join(".claude/settings.json"));
    }
    let own = config_dir.join("settings.json");
    // In the home directory the project's file is the person's own.
    files.retain(|file| *file != own);
    files.push(own);
    files
}

/// A settings file and what it says; a file that does not exist says nothing and is not listed.
pub(crate) fn look(files: &[PathBuf]) -> Vec<(PathBuf, Result<Findings, String>)> {
    files
        .iter()
        .filter_map(|file| {
            let found = match std::fs::read(file) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
                Err(error) => Err(error.to_string()),
                Ok(bytes) => match String::from_utf8(bytes) {
                    Ok(text) => inspect(&text).map_err(|error: SettingsError| error.to_string()),
                    Err(_) => Err("is not UTF-8".to_owned()),
                },
            };
            Some((file.clone(), found))
        })
        .collect()
}

/// The permission mode that these files configure: the first that names one.
pub(crate) fn mode(found: &[(PathBuf, Result<Findings, String>)]) -> Option<(&Path, &str)> {
    found.iter().find_map(|(file, findings)| {
        let mode = findings.as_ref().ok()?.default_mode.as_deref()?;
        Some((file.as_path(), mode))
    })
}

/// Where a program is found.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| {
        file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    })
}

/// What `program --version` says first, e.g. `2.1.332`; none when it does not say it in time.
pub(crate) fn version(program: &Path) -> Option<String> {
    version_of(Command::new(program))
}

/// The same of a program with what goes in front of its arguments.
pub(crate) fn version_of(mut command: Command) -> Option<String> {
    let mut child = command
        .arg("--version")
        // Whatever it is, it is an agent's program: nothing that it starts may answer.
        .env("ASKD_OWNER", format!("version-{}", std::process::id()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut stdout = child.stdout.take()?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = std::io::Read::read_to_end(&mut std::io::Read::take(&mut stdout, 4096), &mut bytes);
        let _ = sender.send(bytes);
    });
    let said = receiver.recv_timeout(VERSION_PATIENCE);
    // It has said what it says, or is not waited for.
    let _ = child.kill();
    let _ = child.wait();
    first_version(&String::from_utf8_lossy(&said.ok()?))
}

/// The first word that looks like a version.
fn first_version(said: &str) -> Option<String> {
    let is_version =
        |word: &&str| word.split('.').count() >= 3 && word.starts_with(|first: char| first.is_ascii_digit());
    said.split_whitespace().find(is_version).map(crate::out::safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_what_is_said() {
        assert_eq!(first_version("2.1.332 (Claude Code)\n").as_deref(), Some("2.1.332"));
        assert_eq!(first_version("claude 2.1.197").as_deref(), Some("2.1.197"));
        assert_eq!(first_version("usage: x [y]"), None);
    }

    #[test]
    fn the_nearest_settings_file_names_the_mode() {
        let temp = tempfile::tempdir().unwrap();
        let (home, project) = (temp.path().join("home/.claude"), temp.path().join("project"));
        std::fs::create_dir_all(&home).unwrap();
        std::fs::create_dir_all(project.join(".claude")).unwrap();
        std::fs::write(home.join("settings.json"), r#"{"permissions":{"defaultMode":"auto"}}"#).unwrap();
        let files = settings_files(&home, Some(&project));
        assert_eq!(mode(&look(&files)).unwrap().1, "auto");
        std::fs::write(project.join(".claude/settings.json"), r#"{"permissions":{"defaultMode":"default"}}"#)
            .unwrap();
        assert_eq!(mode(&look(&files)).unwrap().1, "default");
        std::fs::write(project.join(".claude/settings.local.json"), "{").unwrap();
        assert!(look(&files)[0].1.is_err());
        assert_eq!(mode(&look(&files)).unwrap().1, "default");
    }

    #[test]
    fn a_program_that_says_nothing_has_no_version() {
        assert_eq!(version(Path::new("/bin/true")), None);
        assert_eq!(version(Path::new("/nowhere/claude")), None);
    }
}
