//! The bot's token: read from a file, the environment or a command; never printed, and known to others by a fingerprint.
//!
//! Reading may take long (a command asks a keyring) and may fail now and not later (a home that is not mounted yet), so
//! it is nothing that a start or an ask may wait for: see [`Way::read`].

use std::fmt;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::group::Group;
use crate::secret::{LEAST, MOST as LONGEST, covered, in_token};
use crate::settings::Telegram;

/// Longest text with a token in it, in bytes.
const MOST: u64 = 4096;

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
    #[error("telegram.token_file: {why} ({})", askd_text::safe(&covered(path)).text)]
    File { path: String, why: String },
    /// Without its name, which may well be a token.
    #[error("telegram.token_env: the daemon's environment has no variable of this name")]
    Env,
    /// Whoever starts a daemon on the way to something else says nothing by its environment.
    #[error(
        "telegram.token_env: this daemon was started by a command or an agent and takes no variable of theirs; stop it and run `askd daemon` yourself, or use token_file or token_cmd"
    )]
    NoEnv,
    #[error("telegram.token_cmd: {0}")]
    Command(String),
    /// It was not even tried.
    #[error("the bot's token cannot be read: {0}")]
    NotRead(String),
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
            !bot.is_empty()
                && bot.len() <= 20
                && bot.bytes().all(|c| c.is_ascii_digit())
                && (LEAST..=LONGEST).contains(&secret.len())
                && secret.bytes().all(in_token)
        });
        if looks { Ok(Self(text.to_owned())) } else { Err(TokenError::NotAToken { from }) }
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

/// Where a token comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// A file's path.
    File(String),
    /// A variable's name.
    Env(String),
    /// A line for the shell. It is run by [`Way::read`], so not before a person accepted it.
    Command(String),
}

impl Way {
    /// How long a reading may take. A command that prints a token may ask a keyring, and no person.
    pub const PATIENCE: Duration = Duration::from_secs(15);

    /// The first that is set; `None`: none is.
    pub fn of(from: &Telegram) -> Option<Self> {
        let set = |text: &String| (!text.is_empty()).then(|| text.clone());
        set(&from.token_file)
            .map(Self::File)
            .or_else(|| set(&from.token_env).map(Self::Env))
            .or_else(|| set(&from.token_cmd).map(Self::Command))
    }

    /// Reads it. A command may take [`Way::PATIENCE`], or until `stop` is set; whatever it started is ended with it,
    /// unless it gave a token. A file on a file system that hangs may take for ever.
    pub fn read(&self, stop: &AtomicBool) -> Result<Secret, TokenError> {
        match self {
            Self::File(path) => {
                let text =
                    file(Path::new(path)).map_err(|why| TokenError::File { path: path.clone(), why })?;
                Secret::parse(&text, "telegram.token_file")
            }
            Self::Env(name) => {
                let text = std::env::var(name).map_err(|_| TokenError::Env)?;
                Secret::parse(&text, "telegram.token_env")
            }
            Self::Command(line) => command(line, Self::PATIENCE, stop),
        }
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

fn command(line: &str, patience: Duration, stop: &AtomicBool) -> Result<Secret, TokenError> {
    let not = |why: String| TokenError::Command(why);
    let silent = |shell: &mut Command| {
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    };
    let mut group = Group::run(line, silent).map_err(|error| not(format!("cannot be started: {error}")))?;
    let out = group.shell().stdout.take();
    let (sender, printed) = mpsc::channel();
    // The first line alone: something that the command left behind may hold its output open for ever.
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = out.map(|out| BufReader::new(out.take(MOST)).read_line(&mut text));
        let _ = sender.send(text);
    });
    let end = Instant::now() + patience;
    group.wait(patience, stop).map_err(|why| not(why.to_string()))?;
    let left = end.saturating_duration_since(Instant::now());
    let text = printed.recv_timeout(left).map_err(|_| not("it ended and printed no line".to_owned()))?;
    let secret = Secret::parse(&text, "telegram.token_cmd")?;
    // A helper that it started may be of use to the next one; of one that gave no token nothing is left.
    group.leave();
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const TOKEN: &str = "123456:AAbbCCddEEffGGhhIIjjKKllMMnnOOppQQr";

    fn read(way: Way) -> Result<Secret, TokenError> {
        way.read(&AtomicBool::new(false))
    }

    fn read_file(path: &Path) -> Result<Secret, TokenError> {
        read(Way::File(path.display().to_string()))
    }

    fn runs(line: &str, patience: Duration) -> Result<Secret, TokenError> {
        command(line, patience, &AtomicBool::new(false))
    }

    #[test]
    fn no_text_about_a_token_has_it() {
        let secret = Secret::parse(&format!(" {TOKEN}\n"), "x").unwrap();
        assert_eq!(secret.expose(), TOKEN);
        let all = format!("{secret:?} {secret} {}", secret.fingerprint());
        assert!(!all.contains("AAbb"), "{all}");
        assert!(secret.fingerprint().starts_with("bot 123456 ("));
        let broken = Secret::parse("123456 AAbbCCddEEffGGhhIIjjKKllMMnn", "x").unwrap_err();
        assert!(!broken.to_string().contains("AAbb"));
        let pasted = read(Way::Env("AAbbCCddEEffGGhhIIjjKKllMMnnOOppQQr".to_owned())).unwrap_err();
        assert!(!pasted.to_string().contains("AAbb"));
    }

    #[test]
    fn a_command_that_leaves_something_behind_is_not_waited_for() {
        // What it leaves behind holds the output until it reads the end of this pipe.
        let (held, keep) = std::io::pipe().unwrap();
        let line = format!("cat <&{} & echo {TOKEN}", std::os::fd::AsRawFd::as_raw_fd(&held));
        rustix::io::fcntl_setfd(&held, rustix::io::FdFlags::empty()).unwrap();
        assert_eq!(runs(&line, Way::PATIENCE).unwrap().expose(), TOKEN);
        drop(keep);
    }

    #[test]
    fn a_command_that_gives_no_token_leaves_nothing_behind() {
        // Each of them holds the pipe until it ends.
        let (mut held, keep) = std::io::pipe().unwrap();
        rustix::io::fcntl_setfd(&keep, rustix::io::FdFlags::empty()).unwrap();
        let rest = "(sleep 3600; sleep 3600) | cat &";
        let short = Duration::from_millis(100);
        let failed =
            |line: &str, patience| runs(&format!("{rest} {line}"), patience).unwrap_err().to_string();
        assert!(failed("exit 1", Way::PATIENCE).contains("ended with exit status: 1"));
        assert!(failed("sleep 3600 | (sleep 3600; cat) | cat", short).contains("did not end within"));
        assert!(failed("echo none", Way::PATIENCE).contains("not a bot token"));
        // What it left holds its output, and prints nothing.
        assert!(runs("sleep 3600 & exit 0", short).unwrap_err().to_string().contains("printed no line"));
        let stopped =
            command(&format!("{rest} sleep 3600"), Duration::from_secs(3600), &AtomicBool::new(true));
        assert!(stopped.unwrap_err().to_string().contains("not wanted"));
        drop(keep);
        // This would never come back.
        let mut rest = Vec::new();
        assert_eq!(held.read_to_end(&mut rest).unwrap(), 0);
    }

    #[test]
    fn a_token_file_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, TOKEN).unwrap();
        let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        for bad in [0o640, 0o604, 0o660] {
            mode(bad);
            let error = read_file(&path).unwrap_err().to_string();
            assert!(error.contains("chmod 600"), "{error}");
        }
        mode(0o600);
        assert_eq!(read_file(&path).unwrap().expose(), TOKEN);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let error = read_file(&link).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{error}");
        let error = read_file(dir.path()).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }

    #[test]
    fn a_command_prints_it_or_its_failure_is_told() {
        let by = |line: &str| read(Way::Command(line.to_owned()));
        assert_eq!(by(&format!("echo {TOKEN}")).unwrap().expose(), TOKEN);
        assert!(by("exit 3").unwrap_err().to_string().contains("ended with"));
        assert!(matches!(by("echo no").unwrap_err(), TokenError::NotAToken { .. }));
    }

    #[test]
    fn the_first_way_that_is_set_counts() {
        let mut from = Telegram::default();
        assert_eq!(Way::of(&from), None);
        from.token_cmd = "c".to_owned();
        assert_eq!(Way::of(&from), Some(Way::Command("c".to_owned())));
        from.token_env = "E".to_owned();
        assert_eq!(Way::of(&from), Some(Way::Env("E".to_owned())));
        from.token_file = "/f".to_owned();
        assert_eq!(Way::of(&from), Some(Way::File("/f".to_owned())));
    }
}
