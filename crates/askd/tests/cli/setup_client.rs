//! `askd setup zed`, `askd setup acpx`, `askd setup acp`: what is written, the exact way back, and what doctor says.

use std::fs;

use crate::world::World;

const ZED: &str = "// mine\n{\n  \"agent_servers\": {\n    \"OpenCode\": {\"type\": \"custom\", \"command\": \"opencode\", \"args\": [\"acp\"]},\n    \"Qwen\": {\"command\": \"qwen\"}, // bare\n    \"claude-acp\": {\"type\": \"registry\"},\n  },\n}\n";

#[test]
fn askd_goes_before_the_agents_of_zed_and_comes_out_to_the_byte() {
    let world = World::new();
    let file = world.home().join(".config/zed/settings.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, ZED).unwrap();
    let read = || fs::read_to_string(&file).unwrap();

    let would = world.must(&["setup", "zed", "--dry-run"]);
    assert!(would.contains("+ ") && read() == ZED, "{would}");
    let did = world.must(&["setup", "zed"]);
    assert!(did.contains("OpenCode, Qwen") && did.contains("--undo") && did.contains("claude-acp"), "{did}");
    let place = format!("\"--dir\", \"{}\", \"--\", \"opencode\", \"acp\"]", world.askd_dir().display());
    let text = read();
    assert!(text.contains(&place) && text.contains("// bare"), "{text}");
    let again = world.must(&["setup", "zed"]);
    assert!(again.contains("nothing to change") && read() == text, "{again}");

    let said = world.run(&["doctor"]).out;
    for words in ["OpenCode runs behind askd", "claude-acp has no command", "qwen denies by itself"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    world.must(&["setup", "zed", "--undo"]);
    assert_eq!(read(), ZED);
    let said = world.run(&["doctor"]).out;
    assert!(said.contains("OpenCode does not run behind askd") && said.contains("askd setup zed"), "{said}");

    // A change of the person's own stays.
    world.must(&["setup", "zed"]);
    fs::write(&file, read().replace("// mine", "// still mine")).unwrap();
    world.must(&["setup", "zed"]);
    world.must(&["setup", "zed", "--undo"]);
    let text = read();
    assert!(text.contains("// still mine") && !text.contains("askd"), "{text}");
}

#[test]
fn the_persons_own_askd_keeps_its_flags_and_comes_back_to_the_byte() {
    let mine = "{\"agent_servers\": {\n \"cx\": {\"command\": \"/usr/bin/askd\", \"args\": [\"acp\", \"--subagents\", \"translate\", \"--\", \"codex-acp\"]},\n \"z\": {\"command\": \"env\", \"args\": [\"X=1\", \"askd\", \"acp\", \"--\", \"foo\"]}\n}}\n";
    let world = World::new();
    let file = world.home().join(".config/zed/settings.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, mine).unwrap();
    let read = || fs::read_to_string(&file).unwrap();
    let did = world.must(&["setup", "zed"]);
    assert!(did.contains("put askd before cx in") && did.contains("in the line of z already"), "{did}");
    let text = read();
    assert!(text.contains("\"--subagents\", \"translate\", \"--\", \"codex-acp\"]"), "{text}");
    assert!(text.contains("\"X=1\", \"askd\", \"acp\", \"--\", \"foo\"]"), "{text}");
    // Setup after a change of the person's knows what was theirs.
    fs::write(&file, text.replace("}}\n", "}, \"theme\": 1}\n")).unwrap();
    world.must(&["setup", "zed"]);
    world.must(&["setup", "zed", "--undo"]);
    assert_eq!(read(), mine.replace("}}\n", "}, \"theme\": 1}\n"));
}

#[test]
fn without_an_agent_to_stand_before_it_says_what_to_put_in() {
    let world = World::new();
    let ran = world.run(&["setup", "acpx"]);
    let said = &ran.out;
    assert_eq!(ran.code, Some(2), "a script must not take it for done: {ran:?}");
    assert!(said.contains("has no agent with a command") && said.contains("\"argv\""), "{said}");
    assert!(!world.home().join(".acpx").exists());
    let file = world.home().join(".acpx/config.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "{ no").unwrap();
    let refused = world.run(&["setup", "acpx"]);
    assert!(refused.code == Some(2) && refused.err.contains("nothing was changed"), "{}", refused.err);
}

#[test]
fn what_any_other_client_needs_is_printed() {
    let world = World::new();
    let said = world.must(&["setup", "acp", "--", "my agent", "--acp"]);
    let words =
        format!("[\"acp\",\"--dir\",\"{}\",\"--\",\"my agent\",\"--acp\"]", world.askd_dir().display());
    assert!(said.contains(&words) && said.contains("agent_servers") && said.contains("argv"), "{said}");
    let said = world.must(&["setup", "acp", "--undo"]);
    assert!(said.contains("changes no file") && !said.contains("agent_servers"), "{said}");
}
