//! Which command line of a shell is one that somebody types into. One that runs a script or a command is none.

/// Programs that a person types into.
pub(crate) const NAMES: [&str; 14] = [
    "ash", "bash", "csh", "dash", "elvish", "fish", "ksh", "mksh", "nu", "pwsh", "sh", "tcsh", "xonsh", "zsh",
];
/// Long options with a value behind them, after which the shell reads from its terminal. Editors start the shells of
/// their terminals with them.
const WITH_VALUE: [&str; 16] = [
    "--config",
    "--debug",
    "--debug-output",
    "--env-config",
    "--execute",
    "--features",
    "--include-path",
    "--init-command",
    "--init-file",
    "--log-level",
    "--plugin-config",
    "--plugins",
    "--profile",
    "--profile-startup",
    "--rc",
    "--rcfile",
];
/// Options of PowerShell that end in a value of their own, in lower case.
const WITH_VALUE_OF_POWERSHELL: [&str; 9] = [
    "-configurationname",
    "-custompipename",
    "-ep",
    "-ex",
    "-executionpolicy",
    "-settingsfile",
    "-wd",
    "-windowstyle",
    "-workingdirectory",
];

/// A shell of this name (one of [`NAMES`]) with these arguments, without empty ones, reads what it runs from its terminal.
/// What is not known counts as an option: a script is never begun with a dash.
pub(crate) fn is_typed_into(name: &str, arguments: &[&str]) -> bool {
    if name == "pwsh" {
        return is_typed_into_powershell(arguments);
    }
    let short_with_value = match name {
        "fish" => "CDdfo",
        "nu" => "Iemt",
        "xonsh" => "D",
        "csh" | "tcsh" | "elvish" => "",
        _ => "Oo",
    };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let has_value = if *argument == "--" {
            return arguments.next().is_none();
        } else if argument.starts_with("--") {
            if argument.starts_with("--command") {
                return false;
            }
            WITH_VALUE.contains(argument)
        } else if name == "elvish" && ["-rc", "-log", "-db", "-sock"].contains(argument) {
            true
        } else if let Some(letters) = argument.strip_prefix(['-', '+']) {
            // What follows a letter with a value is the value.
            let at = letters.find(|letter| short_with_value.contains(letter));
            let own = at.map_or(letters, |at| &letters[..at]);
            if own.contains('c') {
                return false;
            }
            at.is_some_and(|at| at + 1 == letters.len())
        } else {
            return false;
        };
        if has_value {
            arguments.next();
        }
    }
    true
}

/// It goes on after a command or a script only with `-NoExit`. Options may be in any case, and shortened.
fn is_typed_into_powershell(arguments: &[&str]) -> bool {
    let arguments: Vec<String> = arguments.iter().map(|argument| argument.to_ascii_lowercase()).collect();
    if arguments.iter().any(|argument| argument.starts_with("-noe")) {
        return true;
    }
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        let runs = !argument.starts_with('-')
            || argument == "-e"
            || ["-c", "-en", "-f"].iter().any(|command| argument.starts_with(command))
                && !argument.starts_with("-config")
                && !argument.starts_with("-custom");
        if runs {
            return false;
        }
        if WITH_VALUE_OF_POWERSHELL.contains(&argument) {
            arguments.next();
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s1_a_shell_is_typed_into_however_its_terminal_or_editor_starts_it() {
        for line in [
            "bash",
            "bash -i",
            "bash --norc -i",
            "bash --init-file /usr/share/code/shellIntegration-bash.sh",
            "bash --rcfile /opt/idea/bash-integration.bash -i",
            "bash -o vi",
            "bash -lO extglob",
            "bash +o history",
            "zsh -il",
            "zsh -o sharehistory -i",
            "sh -",
            "ksh -",
            "fish --init-command source",
            "fish -C source",
            "fish --init-command=source -l",
            "fish -l -C source",
            "nu -e source",
            "nu --execute source --config file",
            "xonsh --rc file",
            "elvish -rc file",
            "pwsh",
            "pwsh -NoLogo",
            "pwsh -noexit -command try",
            "pwsh -NoExit -File profile.ps1",
            "pwsh -WorkingDirectory /tmp -NoProfile",
            "tcsh -l",
        ] {
            assert!(is(line), "{line}");
        }
    }

    #[test]
    fn s1_a_shell_that_runs_something_is_not_typed_into() {
        for line in [
            "bash -c agent",
            "bash -lc agent",
            "bash -ic agent",
            "bash agent",
            "bash --norc agent",
            "bash --init-file rc agent",
            "bash -o pipefail agent",
            "bash -- agent",
            "bash -eo pipefail -c agent",
            "sh -ec agent",
            "zsh -fc agent",
            "fish -c agent",
            "fish --command agent",
            "fish --command=agent",
            "fish -C source agent",
            "nu -c agent",
            "nu --commands agent",
            "nu agent.nu",
            "xonsh -c agent",
            "elvish -c agent",
            "elvish agent.elv",
            "pwsh -Command agent",
            "pwsh -c agent",
            "pwsh -File agent.ps1",
            "pwsh -EncodedCommand YQ==",
            "pwsh agent.ps1",
            "tcsh -c agent",
        ] {
            assert!(!is(line), "{line}");
        }
    }

    fn is(line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        is_typed_into(words[0], &words[1..])
    }
}
