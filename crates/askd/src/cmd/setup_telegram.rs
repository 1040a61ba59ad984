//! `askd setup telegram`: a person gives a bot's token, writes to the bot, and gets a test ask. Only then something is
//! written: the token into a file of its own, the rest into the config; and what was seen is accepted by the same stroke.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use askd_client::{Answers, make_private_directory, random_hex};
use askd_config::{Layers, Secret};
use askd_remote::telegram::api::{Api, Line};
use askd_remote::telegram::call::Sent;
use askd_remote::telegram::shape::{Message, Tap, Update};
use askd_wire::Loosening;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toml_edit::{Array, DocumentMut, Item, Table, value};

use crate::cli::SetupArgs;
use crate::cmd::config;
use crate::confirm;
use crate::context::Desk;
use crate::failure::{Done, Failure, status};
use crate::hidden::Hidden;
use crate::out::{self, one_line, safe};
use crate::replace::Target;

use super::setup::{about, named};

/// How long a person may take to write to the bot, and to tap.
const PATIENCE: Duration = Duration::from_secs(600);
/// The server holds each poll for so long.
const HOLD: Duration = Duration::from_secs(10);
/// For the daemon to see the new config.
const SEEN: Duration = Duration::from_secs(30);

/// What setup wrote, for the way back.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    /// The config before; none: there was no file.
    before: Option<String>,
    installed: String,
    token_file: PathBuf,
}

pub(super) fn setup(desk: &Desk, args: &SetupArgs) -> Done {
    let file = desk.places.config_file();
    let target = Target::read(&file).map_err(|error| about(&file, &error))?;
    if args.undo {
        return undo(desk, args, &file, &target);
    }
    if let Some(mark) = askd_daemon::inside_agent() {
        let text = format!(
            "an agent does not say who may answer ({mark} is set here); do it in a terminal of your own"
        );
        return Err(Failure::new(status::NOT_PERMITTED, text));
    }
    if !confirm::is_attended() {
        return Err(Failure::wrong_use("setup telegram asks you things: run it in a terminal"));
    }
    let way = way(args)?;
    let document = parse(&file, &target)?;
    // Whatever else is wrong there would keep the daemon from what setup writes.
    config::load(desk).map_err(|errors| {
        Failure::wrong_use(format!("{}\nput it right first; nothing was changed", errors.join("\n")))
    })?;
    if document.get("telegram").and_then(Item::as_table_like).is_some_and(|table| !table.is_empty()) {
        let text = format!(
            "{} has [telegram] already: change it there, or: askd setup telegram --undo",
            named(&file)
        );
        return Err(Failure::wrong_use(text));
    }
    let token = ask_token()?;
    let url = way.api_url.clone().unwrap_or_else(|| askd_config::Settings::default().telegram.api_url);
    let proxy = way.proxy.clone().unwrap_or_default();
    let api = Api::new(&url, &proxy, token.clone());
    let line = api.map_err(|error| Failure::wrong_use(format!("--proxy: {error}")))?.line();
    let bot = call(&line, "getMe", &json!({}))?;
    let name = format!("@{}", safe(bot["username"].as_str().unwrap_or("?")));
    out::print_line(&format!("The token is good: the bot is {name}."))?;
    let mut updates = Updates { line: &line, offset: 0 };
    let found = find(&mut updates, &name)?;
    let test = try_out(&mut updates, &found)?;
    // What was said to setup is not said to the daemon.
    let _ = updates.next(Duration::ZERO);
    let shown = Found { way, ..found };
    if args.dry_run {
        let text = installed(document, &shown, &token_file(desk))?;
        out::print_line(&format!("{} would be:\n{text}", named(&file)))?;
        return Ok(status::OK);
    }
    write(desk, &file, &target, document, &shown, &token)?;
    accept(desk, &shown, &token)?;
    say_instead(&line, shown.chat, &test, "askd was set up: asks come here.");
    out::print_line(&format!("Asks come to Telegram now, {} may answer them there.", safe(&shown.person)))?;
    out::print_line("undo: askd setup telegram --undo")?;
    Ok(status::OK)
}

/// Who wrote, and where.
#[derive(Debug)]
struct Found {
    chat: i64,
    user: i64,
    person: String,
    way: Reached,
}

/// How the bot is reached, where that is not as usual.
#[derive(Debug, Default)]
struct Reached {
    api_url: Option<String>,
    proxy: Option<String>,
}

impl Reached {
    /// With the names of their settings.
    fn settings(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let api_url = self.api_url.iter().map(|value| ("api_url", value));
        api_url.chain(self.proxy.iter().map(|value| ("proxy", value)))
    }
}

/// Judged before anything goes out, by the rules of the settings that they will be.
fn way(args: &SetupArgs) -> Result<Reached, Failure> {
    let given =
        [("--api-url", "telegram.api_url", &args.api_url), ("--proxy", "telegram.proxy", &args.proxy)];
    let mut layers = Layers::new();
    for (flag, key, value) in given {
        if let Some(value) = value {
            layers = layers.flag(flag, key, value);
        }
    }
    let config = layers.load().map_err(|errors| {
        Failure::wrong_use(format!("{errors}; nothing was sent and nothing was changed"))
    })?;
    let from = &config.settings().telegram;
    let used = |given: &Option<String>, value: &String| given.as_ref().map(|_| value.clone());
    Ok(Reached { api_url: used(&args.api_url, &from.api_url), proxy: used(&args.proxy, &from.proxy) })
}

fn ask_token() -> Result<Secret, Failure> {
    out::print_line("Make a bot: write /newbot to @BotFather in Telegram. It gives you a token.")?;
    let mut hidden = Hidden::begin()?;
    loop {
        out::print("Paste the token (it is not shown): ")?;
        let text = hidden.line()?;
        out::print_line("")?;
        match Secret::parse(&text, "what you typed") {
            Ok(token) => return Ok(token),
            Err(error) => out::print_line(&error.to_string())?,
        }
    }
}

fn call(line: &Line, method: &str, body: &Value) -> Result<Value, Failure> {
    match line.call(method, body, Duration::ZERO) {
        Sent::Done(result) => Ok(result),
        Sent::Refused(refused) if refused.code == 401 || refused.code == 404 => {
            Err(Failure::wrong_use("Telegram does not know this token; nothing was changed"))
        }
        Sent::Refused(refused) => {
            Err(Failure::unavailable(format!("Telegram refused: {}", one_line(&refused.description))))
        }
        Sent::Unreachable(why) => Err(Failure::unavailable(format!("{why}; nothing was changed"))),
    }
}

struct Updates<'a> {
    line: &'a Line,
    offset: i64,
}

impl Updates<'_> {
    /// What came, after everything before it was confirmed.
    fn next(&mut self, hold: Duration) -> Result<Vec<Update>, Failure> {
        let body = json!({"offset": self.offset, "timeout": hold.as_secs(), "allowed_updates": ["message", "callback_query"]});
        match self.line.call("getUpdates", &body, hold) {
            Sent::Done(result) => {
                let list = result.as_array().cloned().unwrap_or_default();
                let updates: Vec<Update> = list.into_iter().filter_map(Update::read).collect();
                let last = updates.iter().map(|update| update.update_id + 1).max();
                self.offset = last.unwrap_or(self.offset).max(self.offset);
                Ok(updates)
            }
            Sent::Refused(refused) if refused.code == 409 => Err(Failure::unavailable(
                "another program polls with this token, or a webhook is set for it: use a bot of its own for askd",
            )),
            Sent::Refused(refused) => {
                Err(Failure::unavailable(format!("Telegram refused: {}", one_line(&refused.description))))
            }
            Sent::Unreachable(why) => {
                out::print_line(&format!("{why}, trying again"))?;
                std::thread::sleep(Duration::from_secs(1));
                Ok(Vec::new())
            }
        }
    }
}

/// Waits for a message with a word that only this terminal shows: nobody else's message is taken for it.
fn find(updates: &mut Updates<'_>, name: &str) -> Result<Found, Failure> {
    let code = random_hex().map_err(Failure::unavailable)?;
    let word = format!("askd-{}", &code[..6]);
    out::print_line(&format!(
        "Now open a chat with {name}, or add it to a group, and write this there (in a group: /start@{} {word}):\n\n    {word}\n",
        name.trim_start_matches('@')
    ))?;
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        for message in updates.next(HOLD)?.into_iter().filter_map(|update| update.message) {
            let Some(found) = said(&message, &word) else { continue };
            let place = match message.chat.kind.as_str() {
                "private" => "a private chat".to_owned(),
                kind => format!("a {}", safe(kind)),
            };
            let question = format!(
                "{} (user {}) wrote it in {place} (chat {}).",
                safe(&found.person),
                found.user,
                found.chat
            );
            if confirm::confirmed(&format!(
                "{question}\nMay this person answer asks, from this chat? (yes/no) "
            ))? {
                return Ok(found);
            }
            return Err(Failure::wrong_use("nothing was changed"));
        }
    }
    Err(Failure::unavailable("nobody wrote it within 10 minutes; nothing was changed"))
}

fn said(message: &Message, word: &str) -> Option<Found> {
    let from = message.from.as_ref()?;
    let is_it = message.text.as_deref()?.split_whitespace().any(|said| said == word);
    is_it.then(|| Found {
        chat: message.chat.id,
        user: from.id,
        person: from.name(),
        way: Reached::default(),
    })
}

/// Sends an ask that asks nothing, and waits for its button.
/// The test message, of which the words are to be true to the end.
fn say_instead(line: &Line, chat: i64, message: &Value, text: &str) {
    let body = json!({"chat_id": chat, "message_id": message, "text": text});
    let _ = call(line, "editMessageText", &body);
}

/// Gives the number of the test message.
fn try_out(updates: &mut Updates<'_>, found: &Found) -> Result<Value, Failure> {
    let data = format!("test-{}", random_hex().map_err(Failure::unavailable)?);
    let text = "This is a test of askd: nothing runs, whatever you do. Tap the button.";
    let body = json!({
        "chat_id": found.chat, "text": text,
        "reply_markup": {"inline_keyboard": [[{"text": "✅ It works", "callback_data": data}]]},
    });
    let sent = call(updates.line, "sendMessage", &body)?;
    out::print_line("A test message is in the chat. Tap its button.")?;
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        for tap in updates.next(HOLD)?.into_iter().filter_map(|update| update.callback_query) {
            let Tap { id, from, message, data: tapped } = tap;
            let chat = message.map(|message| message.chat.id);
            if tapped.as_deref() == Some(&data) && from.id == found.user && chat == Some(found.chat) {
                let _ = call(
                    updates.line,
                    "answerCallbackQuery",
                    &json!({"callback_query_id": id, "text": "It works."}),
                );
                let id = sent["message_id"].clone();
                // It is not set up yet.
                say_instead(updates.line, found.chat, &id, "It works.");
                return Ok(id);
            }
        }
    }
    Err(Failure::unavailable("nobody tapped it within 10 minutes; nothing was changed"))
}

fn parse(file: &Path, target: &Target) -> Result<DocumentMut, Failure> {
    let text = target.text.as_deref().unwrap_or_default();
    text.parse().map_err(|error: toml_edit::TomlError| {
        Failure::wrong_use(format!("{}: {}; nothing was changed", named(file), one_line(error.message())))
    })
}

fn token_file(desk: &Desk) -> PathBuf {
    desk.places.config_file().with_file_name("telegram-token")
}

/// The config with what was found in it.
fn installed(mut document: DocumentMut, found: &Found, token_file: &Path) -> Result<String, Failure> {
    let path = token_file.to_str().ok_or_else(|| Failure::unavailable("the config's path is not UTF-8"))?;
    let mut table = Table::new();
    table.insert("token_file", value(path));
    table.insert("chat_ids", value(Array::from_iter([found.chat])));
    table.insert("user_ids", value(Array::from_iter([found.user])));
    for (name, set) in found.way.settings() {
        table.insert(name, value(set));
    }
    document.insert("telegram", Item::Table(table));
    Ok(document.to_string())
}

fn write(
    desk: &Desk,
    file: &Path,
    target: &Target,
    document: DocumentMut,
    found: &Found,
    token: &Secret,
) -> Result<(), Failure> {
    let token_file = token_file(desk);
    let installed = installed(document, found, &token_file)?;
    let kept = Written { before: target.text.clone(), installed: installed.clone(), token_file };
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir).map_err(|error| about(dir, &error))?;
    }
    private(&kept.token_file, &format!("{}\n", token.expose()))?;
    // Without it the way back would not be exact, so it comes first.
    let text = serde_json::to_string(&kept).map_err(|error| Failure::unavailable(error.to_string()))?;
    let place = kept_in(desk);
    if let Some(dir) = place.parent() {
        make_private_directory(dir)?;
    }
    private(&place, &text)?;
    target.write(Some(&installed)).map_err(|error| about(file, &error))?;
    fs::set_permissions(file, Permissions::from_mode(0o600)).map_err(|error| about(file, &error))?;
    out::print_line(&format!(
        "wrote [telegram] into {}, the token into {}",
        named(file),
        named(&kept.token_file)
    ))
}

/// Whole or not at all, for this user only.
fn private(path: &Path, text: &str) -> Result<(), Failure> {
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
    let done = made.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    });
    done.map_err(|error| about(path, &error))
}

fn kept_in(desk: &Desk) -> PathBuf {
    desk.places.state_dir().join("setup").join("telegram.json")
}

/// Accepts exactly what this person has just seen, and nothing else that may wait.
fn accept(desk: &Desk, found: &Found, token: &Secret) -> Result<(), Failure> {
    let mut answers = desk.open()?;
    let mut seen = vec![
        ("telegram.chat_ids", found.chat.to_string()),
        ("telegram.user_ids", found.user.to_string()),
        (askd_config::TOKEN, token.fingerprint()),
    ];
    seen.extend(found.way.api_url.iter().map(|url| ("telegram.api_url", url.clone())));
    seen.extend(found.way.proxy.iter().map(|proxy| ("telegram.proxy", proxy.clone())));
    let end = Instant::now() + SEEN;
    for (key, value) in seen {
        while !accept_one(&mut answers, key, &value)? {
            if Instant::now() > end {
                let text = format!("the daemon does not see {key} = {value} yet; later: askd config accept");
                return Err(Failure::unavailable(text));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(())
}

/// False: it does not wait, at least not yet.
fn accept_one(answers: &mut Answers, key: &str, value: &str) -> Result<bool, Failure> {
    let waiting = answers.health()?.waiting_loosenings;
    let Some(found) = waiting.into_iter().find(|waits| waits.key == key && waits.value == value) else {
        return Ok(false);
    };
    answers.accept(&Loosening { meaning: None, ..found })?;
    Ok(true)
}

fn undo(desk: &Desk, args: &SetupArgs, file: &Path, target: &Target) -> Done {
    let kept: Option<Written> =
        fs::read(kept_in(desk)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let text = target.text.as_deref();
    let left = match (&kept, text) {
        // Nobody touched it since: as it was, to the byte.
        (Some(kept), Some(text)) if kept.installed == text => kept.before.clone(),
        (_, None) => None,
        (_, Some(_)) => {
            let mut document = parse(file, target)?;
            document.remove("telegram");
            Some(document.to_string())
        }
    };
    let token = kept.as_ref().map(|kept| kept.token_file.clone()).filter(|path| *path == token_file(desk));
    if left.as_deref() == text && token.is_none() {
        out::print_line(&format!("{} has nothing of Telegram; nothing was changed", named(file)))?;
        return Ok(status::OK);
    }
    if args.dry_run {
        out::print_line(&format!(
            "[telegram] would be taken out of {}, and the token file removed",
            named(file)
        ))?;
        return Ok(status::OK);
    }
    if left.as_deref() != text {
        target.write(left.as_deref()).map_err(|error| about(file, &error))?;
    }
    for path in token.into_iter().chain([kept_in(desk)]) {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(about(&path, &error)),
            _ => {}
        }
    }
    out::print_line(&format!("took [telegram] out of {}, and removed the token file", named(file)))?;
    out::print_line("the bot is still there: @BotFather deletes it, or gives it another token")?;
    Ok(status::OK)
}
