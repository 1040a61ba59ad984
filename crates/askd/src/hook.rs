//! `askd-hook hook AGENT …`: the same as `askd hook AGENT …`, as a program that has nothing else in it. It starts in
//! half the time, because the whole askd brings tables with tens of thousands of addresses, which the loader fills in.

fn main() {
    askd_hook::program()
}
