//! `askd run -- claude -p --permission-prompt-tool mcp__askd__ask`: the permission tool for one run, by a configuration
//! on the command line. Also for a version that asks nobody in `claude -p`.

use std::ffi::OsString;
use std::path::Path;

use askd_client::Places;
use serde_json::json;

use super::claude::{PROMPT_TOOL as FLAG, QUESTIONS};

/// Adds our server to the arguments where they name its tool. What else they configure stays.
pub(super) fn with_server(mut args: Vec<OsString>, exe: &Path, places: &Places) -> Vec<OsString> {
    if !names_our_tool(&args) {
        return args;
    }
    let mut words = vec!["mcp".to_owned()];
    words.extend(places.to_args().iter().map(|word| word.to_string_lossy().into_owned()));
    let server = json!({ "command": exe.display().to_string(), "args": words });
    let config = json!({ "mcpServers": { (askd_mcp::SERVER): server } });
    // In front of a flag, as it takes every word up to the next one.
    args.splice(0..0, ["--mcp-config".into(), config.to_string().into()]);
    args
}

/// Names our tool where nothing else is named. The model is offered no questions by that which it would not have had.
pub(super) fn with_tool(mut args: Vec<OsString>) -> Vec<OsString> {
    let flags = ["--disallowedTools", QUESTIONS, FLAG, &our_tool()].map(OsString::from);
    // In front of our settings, as it takes every word up to the next flag.
    args.splice(0..0, flags);
    args
}

fn our_tool() -> String {
    format!("mcp__{}__{}", askd_mcp::SERVER, askd_mcp::TOOL)
}

fn names_our_tool(args: &[OsString]) -> bool {
    let ours = our_tool();
    let args: Vec<&str> =
        args.iter().take_while(|arg| *arg != "--").map(|arg| arg.to_str().unwrap_or_default()).collect();
    let after = args.windows(2).any(|two| two[0] == FLAG && two[1] == ours);
    after
        || args
            .iter()
            .any(|arg| arg.strip_prefix(FLAG).and_then(|rest| rest.strip_prefix('=')) == Some(&ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_server_is_there_when_its_tool_is_named_and_only_then() {
        let places = Places::at(Path::new("/d"));
        let with = |text: &str| with_server(args(text), Path::new("/bin/askd"), &places);
        for text in
            ["-p --permission-prompt-tool mcp__askd__ask x", "--permission-prompt-tool=mcp__askd__ask"]
        {
            let all = with(text);
            assert_eq!((all[0].as_os_str(), &all[2..]), ("--mcp-config".as_ref(), &*args(text)));
            let config: serde_json::Value = serde_json::from_str(all[1].to_str().unwrap()).unwrap();
            let server = &config["mcpServers"]["askd"];
            assert_eq!(*server, json!({"command": "/bin/askd", "args": ["mcp", "--dir", "/d"]}));
        }
        for text in
            ["-p x", "--permission-prompt-tool stdio", "-p -- --permission-prompt-tool mcp__askd__ask"]
        {
            assert_eq!(with(text), args(text));
        }
    }
}
