//! `askd-hook hook AGENT …`: the same as `askd hook AGENT …`, as a program that has nothing else in it. It starts in
//! half the time, because the whole askd brings tables with tens of thousands of addresses, which the loader fills in.

fn main() {
    let mut args = std::env::args_os().skip(1).peekable();
    let _ = args.next_if(|first| first == "hook");
    askd_hook::run(args)
}
