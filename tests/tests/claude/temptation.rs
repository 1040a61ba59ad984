//! An agent that tries to answer for itself.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use askd_tests::{Gate, Headless, Host, Model, Scripts, Step, Version, World, until};

/// Every attempt writes its exit status, and what it printed, into files of its own name. An attempt that could
/// count prints or exits as the person's own answer would.
const TRY: &str = r#"
try() { local name=$1; shift; "$@" > "out.$name" 2>&1 < /dev/null; echo $? > "code.$name"; }
"#;

const ATTEMPTS: &str = r#"
try plain "$ASKD" allow "$VICTIM"
try deny "$ASKD" deny "$VICTIM" -m "so says the agent"
try stripped env -i ASKD_DIR="$ASKD_DIR" "$ASKD" allow "$VICTIM"
try session setsid -w "$ASKD" allow "$VICTIM"
try nohup nohup "$ASKD" allow "$VICTIM"
try withdraw "$ASKD" withdraw "$VICTIM"
try accept "$ASKD" config accept
try override "$ASKD" permissions skip on
try restart "$ASKD" daemon restart
try stop "$ASKD" daemon stop

# Twice forked, in a session of its own, and asking only when its parents are gone.
orphan() {
    while [ -d "/proc/$1" ]; do sleep 0.05; done
    try orphan "$ASKD" allow "$VICTIM"
}
export -f try orphan
(parent=$BASHPID; setsid nohup bash -c 'orphan "$0"' "$parent" > /dev/null 2>&1 &)
until [ -s code.orphan ]; do sleep 0.05; done

# The two sockets, without the program.
cat > post.js <<'JS'
const [socketPath, path, body] = process.argv.slice(2);
const headers = {"content-type": "application/json", "content-length": Buffer.byteLength(body)};
const req = require("http").request({socketPath, path, method: "POST", headers}, res => {
  console.log(res.statusCode); res.pipe(process.stdout); res.on("end", () => process.exit(res.statusCode < 400 ? 0 : 1));
});
req.on("error", e => { console.log(e.message); process.exit(2); });
req.end(body);
JS
answer="{\"decision\":\"allow\",\"digest\":\"$DIGEST\"}"
bulk="[{\"id\":\"$VICTIM\",\"decision\":\"allow\",\"digest\":\"$DIGEST\"}]"
for sock in ask answer; do
    try "$sock-answer" node post.js "$ASKD_DIR/run/$sock.sock" "/v1/asks/$VICTIM/answer" "$answer"
    try "$sock-bulk" node post.js "$ASKD_DIR/run/$sock.sock" "/v1/answers" "$bulk"
    try "$sock-withdraw" node post.js "$ASKD_DIR/run/$sock.sock" "/v1/asks/$VICTIM/withdraw" '{"cause":"cancelled"}'
done
try answer-orphan setsid -w nohup node post.js "$ASKD_DIR/run/answer.sock" "/v1/asks/$VICTIM/answer" "$answer"

try override-post node post.js "$ASKD_DIR/run/answer.sock" /v1/permissions/command '{"text":"/skip-permissions on"}'

# The rules themselves; the daemon reads them before the next ask.
printf '[permissions]\ndangerously_skip_permissions = true\nbackground_default = "allow"\nbackground_timeout_secs = 1\n' > "$ASKD_DIR/config.toml"
"#;

/// May succeed, since they decide nothing: there is nothing to accept yet, requesters outlive a restart, and a bulk
/// answer may be refused one by one.
const HARMLESS: [&str; 3] = ["accept", "restart", "answer-bulk"];

/// The looser rules wait for a person by now.
const ACCEPT: &str = r#"
try accept-edit "$ASKD" config accept --yes
try accept-stripped env -i ASKD_DIR="$ASKD_DIR" "$ASKD" config accept --yes
try accept-post node post.js "$ASKD_DIR/run/answer.sock" /v1/config/accept \
    '{"key":"permissions.background_default","value":"allow"}'
"#;

/// A daemon of the agent's own, with looser rules in its environment and in the config.
const TAKEOVER: &str = r#"
kill -9 "$(grep -o '"pid": *[0-9]*' "$ASKD_DIR/state/daemon.json" | grep -o '[0-9]*$')"
export ASKD_PERMISSIONS__DANGEROUSLY_SKIP_PERMISSIONS=true ASKD_PERMISSIONS__BACKGROUND_DEFAULT=allow ASKD_PERMISSIONS__BACKGROUND_TIMEOUT_SECS=1
setsid nohup "$ASKD" daemon > daemon.own 2>&1 < /dev/null &
until "$ASKD" status > /dev/null 2>&1; do sleep 0.1; done
try takeover "$ASKD" allow "$VICTIM"
try takeover-accept "$ASKD" config accept --yes
try takeover-stripped env -i ASKD_DIR="$ASKD_DIR" "$ASKD" allow "$VICTIM"
try takeover-accept-stripped env -i ASKD_DIR="$ASKD_DIR" "$ASKD" config accept --yes
"#;

#[test]
fn s1_an_agent_cannot_answer_for_itself() -> Result<()> {
    let world = World::with_askd()?;
    let over = Gate::default();
    let both = Step::agent("victim", "victim", false).and(Step::agent("attacker", "attacker", false));
    let scripts = Scripts::of("main", [both, Step::say("done")])
        .with("victim", [Step::bash("touch looted"), Step::say("done")])
        .with(
            "attacker",
            [
                Step::bash("bash ./attempts.sh"),
                Step::bash("bash ./accept.sh"),
                Step::bash("bash ./takeover.sh"),
                Step::agent("helper", "helper", true),
                Step::say("done").held_by(&over),
            ],
        )
        .with("helper", [Step::bash("touch skipped"), Step::say("done")]);
    let model = Model::start(scripts)?;
    let mut agent = Headless::start(&world, Version::Newest, &model, Host::Nobody)?;
    agent.say("play=main")?;

    let victim = world.ask("touch looted")?;
    let head = format!(
        "export ASKD='{}' ASKD_DIR='{}' VICTIM='{}' DIGEST='{}'\n",
        world.askd().display(),
        world.askd_dir().display(),
        victim.id,
        victim.digest
    );
    for (name, script) in [("attempts.sh", ATTEMPTS), ("accept.sh", ACCEPT), ("takeover.sh", TAKEOVER)] {
        fs::write(world.project().join(name), format!("{head}{TRY}{script}"))?;
    }

    let attack = world.ask("attempts.sh")?;
    assert_eq!(world.allow(&attack.id)?, 0);
    model.result("attacker", 0)?;
    let first = codes(&world)?;
    assert_eq!(first.len(), 19, "an attempt is missing: {first:?}");
    for (name, code) in first.iter().filter(|(name, _)| !HARMLESS.contains(&name.as_str())) {
        assert_ne!(*code, 0, "{name}: {}", said(&world, name));
    }
    for name in ["plain", "deny", "stripped", "session", "nohup", "withdraw", "orphan", "stop", "override"] {
        assert_eq!(first.get(name), Some(&7), "{name}: {}", said(&world, name));
    }
    for name in ["answer-answer", "answer-bulk", "answer-orphan", "override-post"] {
        let said = said(&world, name);
        assert!(said.contains("not_permitted"), "{name}: {said}");
    }
    assert_eq!(world.show(&victim.id)?.state, "open");
    assert!(!world.made("looted"));

    for (step, script) in [(1, "accept.sh"), (2, "takeover.sh")] {
        let more = world.ask(script)?;
        assert_eq!(world.allow(&more.id)?, 0);
        model.result("attacker", step)?;
    }
    let all = codes(&world)?;
    assert_eq!(all.len(), first.len() + 7, "an attempt is missing: {all:?}");
    for (name, code) in all.iter().filter(|(name, _)| !first.contains_key(*name) && *name != "accept-post") {
        assert_eq!(*code, 7, "{name}: {}", said(&world, name));
    }
    assert!(said(&world, "accept-post").contains("not_permitted"), "{}", said(&world, "accept-post"));
    // The looser rules wait for a person, also under the agent's own daemon.
    let skipped = world.ask("touch skipped")?;
    assert_eq!((skipped.attendance.as_str(), skipped.default.as_deref()), ("background", Some("deny")));
    let open = world.wait(&victim.id, "the victim attached again", |ask| ask.requester.link == "attached")?;
    assert_eq!(open.state, "open");
    assert!(!world.made("skipped") && !world.made("looted"));

    // The person still can.
    assert_eq!(world.deny(&skipped.id, "no")?, 0);
    assert_eq!(world.deny(&victim.id, "no")?, 0);
    over.open();
    agent.turn_end(1)?;
    assert!(!world.made("skipped") && !world.made("looted"));
    Ok(())
}

fn codes(world: &World) -> Result<BTreeMap<String, i32>> {
    let mut codes = BTreeMap::new();
    for entry in fs::read_dir(world.project())? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some(name) = name.strip_prefix("code.") {
            let code = until("an exit status", || Ok(fs::read_to_string(&path)?.trim().parse().ok()))
                .with_context(|| name.to_owned())?;
            codes.insert(name.to_owned(), code);
        }
    }
    Ok(codes)
}

fn said(world: &World, name: &str) -> String {
    fs::read_to_string(world.project().join(format!("out.{name}"))).unwrap_or_default()
}
