//! What the tests share: a world with a daemon, a bot, and people with telephones.

use std::process::{Child, Command, Stdio};
use std::{fs, io::Read as _};

use anyhow::{Context, Result, bail};
use askd_tests::bot::{self, Bot, Person, Shown};
use askd_tests::{Ask, World, until};
use serde_json::Value;

pub(crate) const ANNA: Person = Person { id: 11, name: "Anna" };
pub(crate) const BERT: Person = Person { id: 12, name: "Bert" };
pub(crate) const MALLORY: Person = Person { id: 66, name: "Mallory" };
/// Anna's chat with the bot.
pub(crate) const HERS: i64 = 11;
pub(crate) const GROUP: i64 = -100_500;

pub(crate) struct Scene {
    pub(crate) bot: Bot,
    // Last: its processes end before the server does.
    pub(crate) world: World,
}

/// A requester that waits for its outcome.
pub(crate) struct Asker {
    child: Child,
    pub(crate) ask: Ask,
}

impl Asker {
    /// Waits for the end of the requester: its exit status and the settled ask.
    pub(crate) fn outcome(mut self) -> Result<(i32, Value)> {
        let status = until("the end of a requester", || Ok(self.child.try_wait()?))?;
        let mut text = String::new();
        self.child.stdout.take().context("no output")?.read_to_string(&mut text)?;
        Ok((status.code().unwrap_or(-1), serde_json::from_str(&text).with_context(|| text.clone())?))
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Scene {
    /// Anna alone, in her chat with the bot, accepted by a person.
    pub(crate) fn new() -> Result<Self> {
        Self::with(&[HERS], &[ANNA], "")
    }

    /// `rest`: further lines of the config.
    pub(crate) fn with(chats: &[i64], people: &[Person], rest: &str) -> Result<Self> {
        let mut scene = Self::unaccepted(chats, people, rest)?;
        scene.world.start_daemon()?;
        scene.accept()?;
        Ok(scene)
    }

    /// The config is there, no daemon yet, and no person accepted anything.
    pub(crate) fn unaccepted(chats: &[i64], people: &[Person], rest: &str) -> Result<Self> {
        let bot = Bot::start(chats)?;
        let world = World::bare()?;
        let scene = Self { bot, world };
        scene.write_token(bot::TOKEN)?;
        scene.configure(chats, people, rest)?;
        Ok(scene)
    }

    pub(crate) fn write_token(&self, token: &str) -> Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let file = self.world.file("token");
        fs::write(&file, format!("{token}\n"))?;
        Ok(fs::set_permissions(file, fs::Permissions::from_mode(0o600))?)
    }

    pub(crate) fn configure(&self, chats: &[i64], people: &[Person], rest: &str) -> Result<()> {
        let people: Vec<i64> = people.iter().map(|person| person.id).collect();
        let config = format!(
            "[telegram]\ntoken_file = \"{}\"\nchat_ids = {chats:?}\nuser_ids = {people:?}\napi_url = \"{}\"\n{rest}",
            self.world.file("token").display(),
            self.bot.url(),
        );
        Ok(fs::write(self.world.askd_dir().join("config.toml"), config)?)
    }

    /// A person accepts what waits, and the bot is at work.
    pub(crate) fn accept(&self) -> Result<()> {
        self.world.must(&["config", "accept", "--yes"])?;
        self.at_work()
    }

    /// Waits until the daemon polls.
    pub(crate) fn at_work(&self) -> Result<()> {
        let before = self.bot.calls("getUpdates").len();
        let polls = until("the daemon to poll", || {
            Ok((self.bot.calls("getUpdates").len() >= before.max(2)).then_some(()))
        });
        polls.with_context(|| format!("{}\n{}", self.world.daemon_said(), self.bot.story()))
    }

    /// Kills the daemon as a power cut would, does something meanwhile, and starts the next one.
    pub(crate) fn restart(&mut self, meanwhile: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        self.world.kill_daemon()?;
        meanwhile(self)?;
        self.world.start_daemon()
    }

    /// Raises a foreground ask for a shell command, which must be one of its own.
    pub(crate) fn ask(&self, command: &str) -> Result<Asker> {
        self.ask_with(command, &[])
    }

    pub(crate) fn background(&self, command: &str, deadline: u32) -> Result<Asker> {
        self.ask_with(command, &["--background", "--deadline", &deadline.to_string()])
    }

    pub(crate) fn ask_with(&self, command: &str, args: &[&str]) -> Result<Asker> {
        let child = self.raise(command, args)?.spawn()?;
        let mut found = None;
        let raised = until(&format!("the ask {command:?}"), || {
            let asks = self.world.asks()?;
            found = asks.into_iter().rev().find(|ask| ask.command() == command);
            Ok(found.clone())
        });
        Ok(Asker { child, ask: raised.with_context(|| self.world.daemon_said())? })
    }

    pub(crate) fn raise(&self, command: &str, args: &[&str]) -> Result<Command> {
        let input = serde_json::json!({"command": command}).to_string();
        let mut process = self.world.command(&["ask", "--tool", "Bash", "--input", &input, "--json"]);
        process.args(args).stdout(Stdio::piped()).stderr(Stdio::null());
        Ok(process)
    }

    /// Waits for the card of an ask.
    pub(crate) fn card(&self, asker: &Asker) -> Result<Shown> {
        self.bot.card(HERS, &asker.ask.handle)
    }

    /// Waits for the last part of a card of several.
    pub(crate) fn card_of_parts(&self, asker: &Asker) -> Result<Shown> {
        let handle = format!("{} goes on", asker.ask.handle);
        self.bot
            .wait(HERS, "the last part", |shown| shown.text.starts_with(&handle) && !shown.buttons.is_empty())
    }

    /// Raises an ask with an "always" over the API, and gives its handle.
    pub(crate) fn raise_with_always(&self, command: &str) -> Result<String> {
        let raise = serde_json::json!({
            "key": command, "action": {"tool": "Bash", "input": {"command": command}},
            "agent": "host", "session": "s", "requester": "library",
            "options": [
                {"id": "allow_once", "label": "Yes", "kind": "allow_once"},
                {"id": "always", "label": "Yes, and don't ask again", "kind": "allow_always", "grants": "Bash(make:*)"},
                {"id": "reject_once", "label": "No", "kind": "reject_once"},
            ],
            "grace_secs": 600,
        });
        let mut socket = std::os::unix::net::UnixStream::connect(self.world.askd_dir().join("run/ask.sock"))?;
        let body = raise.to_string();
        std::io::Write::write_all(
            &mut socket,
            format!("POST /v1/asks HTTP/1.1\r\nhost: askd\r\nconnection: close\r\ncontent-type: application/json\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n{body}", "ab".repeat(16), body.len()).as_bytes(),
        )?;
        let mut reply = String::new();
        socket.read_to_string(&mut reply)?;
        let found =
            until("the ask", || Ok(self.world.open()?.into_iter().find(|ask| ask.command() == command)));
        Ok(found.with_context(|| reply)?.handle)
    }

    /// What `askd doctor` says.
    pub(crate) fn doctor(&self) -> Result<String> {
        Ok(self.world.run(&["doctor"])?.stdout)
    }

    pub(crate) fn settled(&self, id: &str) -> Result<Ask> {
        let ask = self.world.wait(id, "the ask to be settled", |ask| ask.state == "settled")?;
        if ask.outcome.is_none() {
            bail!("settled without an outcome: {ask:?}");
        }
        Ok(ask)
    }
}
