//! The bot's token: read from a file, the environment or a command; never printed, and known to others by a fingerprint.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::settings::Telegram;

/// Longest text with a token in it, in bytes.
const MOST: u64 = 4096;
/// A command that prints a token may ask a keyring, and no person.
const PATIENCE: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(20);

/// A token. Its `Debug` and `Display` say that there is one.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// Why there is no token. The message never has a part of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("telegram.token_file {}: {why}", askd_text::safe(path).text)]
    File { path: String, why: String },
    #[error("telegram.token_env: the daemon has no environment variable {}", askd_text::safe(.0).text)]
    Env(String),
    /// It may well be the token itself.
    #[error("telegram.token_env: this is no name of an environment variable (letters, digits and _)")]
    NotAName,
    #[error("telegram.token_cmd: {0}")]
    Command(String),
    #[error(
        "{from}: what is there is not a bot token (digits, a colon, and at least 30 letters, digits, - or _)"
    )]
    NotAToken { from: &'static str },
}

impl Secret {
    /// Takes a text that looks like a bot token; blanks around it do not count.
    pub fn parse(text: &str, from: &'static str) -> Result<Self, TokenError> {
        let text = text.trim();
        let looks = text.split_once(':').is_some_and(|(bot, secret)| {
            let inner = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
            !bot.is_empty()
                && bot.len() <= 20
                && bot.bytes().all(|c| c.is_ascii_digit())
                && (30..=100).contains(&secret.len())
                && secret.bytes().all(inner)
        });
        if looks { Ok(Self(text.to_owned())) } else { Err(TokenError::NotAToken { from }) }
    }

    /// Reads it as the settings say; `None`: no way is set. A command is run, so not before a person accepted it.
    pub fn read(from: &Telegram) -> Result<Option<Self>, TokenError> {
        if !from.token_file.is_empty() {
            let text = file(Path::new(&from.token_file))
                .map_err(|why| TokenError::File { path: from.token_file.clone(), why })?;
            return Self::parse(&text, "telegram.token_file").map(Some);
        }
        if !from.token_env.is_empty() {
            let in_name = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
            if !from.token_env.bytes().all(in_name) {
                return Err(TokenError::NotAName);
            }
            let text = std::env::var(&from.token_env).map_err(|_| TokenError::Env(from.token_env.clone()))?;
            return Self::parse(&text, "telegram.token_env").map(Some);
        }
        if !from.token_cmd.is_empty() {
            let text = command(&from.token_cmd).map_err(TokenError::Command)?;
            return Self::parse(&text, "telegram.token_cmd").map(Some);
        }
        Ok(None)
    }

    /// The token itself, for the one request line that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The number of the bot, which is no secret, and a few digits by which one token is told from another.
    pub fn fingerprint(&self) -> String {
        let bot = self.0.split(':').next().unwrap_or_default();
        let hash = Sha256::digest(self.0.as_bytes());
        let digits: String = hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        format!("bot {bot} ({digits})")
    }
}

fn file(path: &Path) -> Result<String, String> {
    let flags = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits() | rustix::fs::OFlags::NONBLOCK.bits());
    let opened = OpenOptions::new().read(true).custom_flags(flags.unwrap_or_default()).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => "is a symbolic link".to_owned(),
        _ => format!("cannot be read: {error}"),
    })?;
    let meta = file.metadata().map_err(|error| format!("cannot be read: {error}"))?;
    if !meta.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let (owner, ours) = (meta.uid(), rustix::process::geteuid().as_raw());
    if owner != ours {
        return Err(format!("belongs to user {owner}, not to {ours}"));
    }
    if meta.mode() & 0o077 != 0 {
        return Err(format!("others can read or write it (mode {:04o}): chmod 600", meta.mode() & 0o7777));
    }
    let mut text = String::new();
    file.take(MOST).read_to_string(&mut text).map_err(|error| format!("cannot be read: {error}"))?;
    Ok(text)
}

fn command(line: &str) -> Result<String, String> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", line]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = shell.spawn().map_err(|error| format!("cannot be started: {error}"))?;
    let out = child.stdout.take();
    let (sender, printed) = mpsc::channel();
    // The first line alone: something that the command left behind may hold its output open for ever.
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = out.map(|out| BufReader::new(out.take(MOST)).read_line(&mut text));
        let _ = sender.send(text);
    });
    let end = Instant::now() + PATIENCE;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => break,
            Ok(Some(status)) => return Err(format!("ended with {status}")),
            Ok(None) if Instant::now() < end => std::thread::sleep(LOOK),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("did not end within {} s", PATIENCE.as_secs()));
            }
            Err(error) => return Err(format!("cannot be waited for: {error}")),
        }
    }
    let left = end.saturating_duration_since(Instant::now());
    printed.recv_timeout(left).map_err(|_| "it ended and printed no line".to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const TOKEN: &str = "123456:AAbbCCddEEffGGhhIIjjKKllMMnnOOppQQr";

    fn telegram(path: &Path) -> Telegram {
        Telegram { token_file: path.display().to_string(), ..Telegram::default() }
    }

    #[test]
    fn s10_no_text_about_a_token_has_it() {
        let secret = Secret::parse(&format!(" {TOKEN}\n"), "x").unwrap();
        assert_eq!(secret.expose(), TOKEN);
        let all = format!("{secret:?} {secret} {}", secret.fingerprint());
        assert!(!all.contains("AAbb"), "{all}");
        assert!(secret.fingerprint().starts_with("bot 123456 ("));
        let broken = Secret::parse("123456 AAbbCCddEEffGGhhIIjjKKllMMnn", "x").unwrap_err();
        assert!(!broken.to_string().contains("AAbb"));
        let pasted = Telegram { token_env: TOKEN.to_owned(), ..Telegram::default() };
        assert_eq!(Secret::read(&pasted), Err(TokenError::NotAName));
        assert!(!TokenError::NotAName.to_string().contains("AAbb"));
    }

    #[test]
    fn a_command_that_leaves_something_behind_is_not_waited_for() {
        // What it leaves behind holds the output until it reads the end of this pipe.
        let (held, keep) = std::io::pipe().unwrap();
        let line = format!("cat <&{} & echo {TOKEN}", std::os::fd::AsRawFd::as_raw_fd(&held));
        rustix::io::fcntl_setfd(&held, rustix::io::FdFlags::empty()).unwrap();
        assert_eq!(command(&line), Ok(format!("{TOKEN}\n")));
        drop(keep);
    }

    #[test]
    fn s10_a_token_file_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, TOKEN).unwrap();
        let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        for bad in [0o640, 0o604, 0o660] {
            mode(bad);
            let error = Secret::read(&telegram(&path)).unwrap_err().to_string();
            assert!(error.contains("chmod 600"), "{error}");
        }
        mode(0o600);
        assert_eq!(Secret::read(&telegram(&path)).unwrap().unwrap().expose(), TOKEN);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let error = Secret::read(&telegram(&link)).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{error}");
        let error = Secret::read(&telegram(dir.path())).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }

    #[test]
    fn a_command_prints_it_or_its_failure_is_told() {
        let by = |line: &str| Secret::read(&Telegram { token_cmd: line.to_owned(), ..Telegram::default() });
        assert_eq!(by(&format!("echo {TOKEN}")).unwrap().unwrap().expose(), TOKEN);
        assert!(by("exit 3").unwrap_err().to_string().contains("ended with"));
        assert!(matches!(by("echo no").unwrap_err(), TokenError::NotAToken { .. }));
        assert_eq!(Secret::read(&Telegram::default()), Ok(None));
    }
}
