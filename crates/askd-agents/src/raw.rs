//! JSON that stays as it was written: objects whose members keep their order, their number text and what is unknown.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A JSON object as a list of members, each value as its own text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Object<'a> {
    members: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Object<'a> {
    /// `None`: the text is no JSON object.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.members.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// A member that is itself an object; an empty one when it is absent or something else.
    pub(crate) fn object(&self, name: &str) -> Object<'_> {
        self.get(name).and_then(Object::parse).unwrap_or_default()
    }

    /// A member that is a string.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }

    /// Changes a member in its place, or adds it behind the others. `value` is JSON text.
    pub(crate) fn set(&mut self, name: &str, value: String) {
        match self.members.iter_mut().find(|(key, _)| key == name) {
            Some((_, old)) => *old = Cow::Owned(value),
            None => self.members.push((Cow::Owned(name.to_owned()), Cow::Owned(value))),
        }
    }

    pub(crate) fn set_text(&mut self, name: &str, value: &str) {
        self.set(name, quote(value));
    }
}

/// Compact JSON text, members as they were.
impl fmt::Display for Object<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (n, (key, value)) in self.members.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            write!(f, "{comma}{}:{value}", quote(key))?;
        }
        f.write_str("}")
    }
}

/// A string as JSON text.
pub(crate) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
        let mut members: Vec<(Cow<'de, str>, Cow<'de, str>)> = Vec::new();
        while let Some(Key(key)) = map.next_key()? {
            let value: &'de RawValue = map.next_value()?;
            if members.iter().any(|(known, _)| *known == key) {
                return Err(A::Error::custom("the same member twice"));
            }
            members.push((key, Cow::Borrowed(value.get())));
        }
        Ok(Object { members })
    }
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

/// A member's name; borrowed where it has no escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a4_what_is_not_changed_keeps_its_text() {
        let text = r#"{"b":1.0e2,"a":{"z":1,"y":[1, 2]},"ünknown":null}"#;
        let mut object = Object::parse(text).unwrap();
        assert_eq!(object.to_string(), text);
        object.set_text("a", "x\"y");
        object.set("new", "{}".to_owned());
        assert_eq!(object.to_string(), r#"{"b":1.0e2,"a":"x\"y","ünknown":null,"new":{}}"#);
    }

    #[test]
    fn only_objects_without_doubles_are_read() {
        for text in ["[]", "1", "", r#"{"a":1,"a":2}"#, r#"{"a":1}x"#] {
            assert_eq!(Object::parse(text), None, "{text}");
        }
    }
}
