//! The machine of pi's RPC mode with lines as the real pi writes them.

#[cfg(test)]
mod rpc;
