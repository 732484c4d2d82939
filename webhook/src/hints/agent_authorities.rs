//! [`AgentAuthorities`]: SHA-256 of the CAs that an agent trusts, as it names it when it opens its stream.

use headroom_domain::names;
use tonic::metadata::MetadataMap;

/// Length of a SHA-256 in hexadecimal digits.
const LENGTH: usize = 64;

/// SHA-256 of an agent's CA file in lower-case hexadecimal digits; empty if the agent names none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentAuthorities(String);

impl AgentAuthorities {
    /// By the metadata of the call that opens the stream.
    pub fn from_metadata(metadata: &MetadataMap) -> Self {
        let text = metadata.get(names::AUTHORITIES_METADATA);
        let text = text.and_then(|value| value.to_str().ok());
        text.map_or_else(Self::default, Self::from_text)
    }

    /// By the value; a text that is no SHA-256 counts as none.
    pub fn from_text(text: &str) -> Self {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_digest = text.len() == LENGTH && text.bytes().all(is_digit);
        Self(if is_digest { text.to_owned() } else { String::new() })
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::empty("")]
    #[case::short("ab")]
    #[case::no_digit("gggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggg")]
    #[case::upper_case("ABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCD")]
    fn a_text_that_is_no_digest_counts_as_none(#[case] text: &str) {
        assert_eq!(AgentAuthorities::from_text(text), AgentAuthorities::default());
    }
}
