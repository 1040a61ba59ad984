//! Head of an HTTP/1.1 reply, read strictly: what could be read in two ways is refused.

use askd_wire::VERSION_HEADER;

use crate::error::HttpError;

/// What the head says about the reply and its body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) framing: Framing,
    /// The daemon closes the connection after this reply.
    pub(crate) close: bool,
    /// API version of the daemon.
    pub(crate) api: Option<u32>,
    pub(crate) content_type: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
}

/// Length of the head at the front of `bytes` with its empty line, when it is whole.
pub(crate) fn end_of_head(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

/// Reads a whole head, its empty line included.
pub(crate) fn parse(head: &[u8]) -> Result<Head, HttpError> {
    let malformed = HttpError::Malformed;
    let text = std::str::from_utf8(head).map_err(|_| malformed("the head is not text"))?;
    let text = text.strip_suffix("\r\n\r\n").ok_or(malformed("the head does not end"))?;
    let mut lines = text.split("\r\n");
    let status = parse_status(lines.next().unwrap_or_default())?;
    let mut length = None;
    let mut chunked = false;
    let mut reply = Head { status, framing: Framing::Length(0), close: false, api: None, content_type: None };
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(malformed("a header has no colon"))?;
        if name.is_empty()
            || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.!#$%&'*+^`|~".contains(&b))
        {
            return Err(malformed("a header has no proper name"));
        }
        if value.bytes().any(|b| b < b' ' && b != b'\t' || b == 0x7f) {
            return Err(malformed("a header holds a control character"));
        }
        let value = value.trim_matches([' ', '\t']);
        if name.eq_ignore_ascii_case("content-length") {
            let this = parse_decimal(value).ok_or(malformed("content-length is not a number"))?;
            if length.replace(this).is_some_and(|before| before != this) {
                return Err(malformed("two different content-lengths"));
            }
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            if chunked || !value.eq_ignore_ascii_case("chunked") {
                return Err(malformed("an unknown transfer-encoding"));
            }
            chunked = true;
        } else if name.eq_ignore_ascii_case("connection") {
            reply.close |= value.split(',').any(|word| word.trim().eq_ignore_ascii_case("close"));
        } else if name.eq_ignore_ascii_case(VERSION_HEADER) {
            reply.api = value.parse().ok();
        } else if name.eq_ignore_ascii_case("content-type") {
            reply.content_type = Some(value.to_ascii_lowercase());
        }
    }
    let bodiless = status / 100 == 1 || status == 204 || status == 304;
    reply.framing = match (chunked, length) {
        (true, Some(_)) => return Err(malformed("both content-length and transfer-encoding")),
        (true, None) if !bodiless => Framing::Chunked,
        (false, Some(length)) if !bodiless => Framing::Length(length),
        (false, None) if !bodiless => return Err(malformed("neither content-length nor transfer-encoding")),
        _ => Framing::Length(0),
    };
    Ok(reply)
}

fn parse_status(line: &str) -> Result<u16, HttpError> {
    let rest =
        line.strip_prefix("HTTP/1.1 ").ok_or(HttpError::Malformed("it does not start with HTTP/1.1"))?;
    let code = rest.get(..3).filter(|code| code.bytes().all(|b| b.is_ascii_digit()));
    match (code.and_then(|code| code.parse().ok()), rest.as_bytes().get(3)) {
        (Some(status @ 100..600), None | Some(b' ')) => Ok(status),
        _ => Err(HttpError::Malformed("the status is not a number")),
    }
}

fn parse_decimal(text: &str) -> Option<u64> {
    // `parse` alone would take a leading plus.
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) { None } else { text.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_head_is_read() {
        let head = parse(
            b"HTTP/1.1 409 Conflict\r\nContent-Length:  12 \r\nX-Askd-Version: 3\r\nConnection: keep-alive, Close\r\nContent-Type: application/problem+JSON\r\n\r\n",
        )
        .unwrap();
        assert_eq!(head.status, 409);
        assert_eq!(head.framing, Framing::Length(12));
        assert_eq!(head.api, Some(3));
        assert!(head.close);
        assert_eq!(head.content_type.as_deref(), Some("application/problem+json"));
    }

    #[test]
    fn bodiless_replies_need_no_length() {
        assert_eq!(parse(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap().framing, Framing::Length(0));
        assert_eq!(
            parse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap().framing,
            Framing::Chunked
        );
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for head in [
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 +20 OK\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 999 OK\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX: a\nContent-Length: 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\nContent-Length: 1\r\n\r\n",
            "garbage\r\n\r\n",
            "HTTP/1.1 €00\r\n\r\n",
        ] {
            assert!(matches!(parse(head.as_bytes()), Err(HttpError::Malformed(_))), "{head:?}");
        }
        assert!(parse(b"HTTP/1.1 200 \xff\r\n\r\n").is_err());
    }
}
