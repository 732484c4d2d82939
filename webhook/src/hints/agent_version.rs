//! [`AgentVersion`]: the version that an agent names when it opens its stream.

use std::fmt;

use headroom_domain::names;
use http::header::USER_AGENT;
use tonic::metadata::MetadataMap;

/// The longest version that is kept, in bytes.
const LONGEST: usize = 32;

/// Version that an agent names; empty if it names none, or a text that cannot be a version.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentVersion(String);

impl AgentVersion {
    /// By the metadata of the call that opens the stream.
    pub fn from_metadata(metadata: &MetadataMap) -> Self {
        let text = metadata.get(USER_AGENT.as_str());
        let text = text.and_then(|value| value.to_str().ok());
        text.map_or_else(Self::default, Self::from_user_agent)
    }

    /// By a user agent such as `headroom-agent/0.1.0 tonic/0.14.9`.
    pub fn from_user_agent(text: &str) -> Self {
        let product = text.split_whitespace().next().unwrap_or_default();
        let version = product
            .strip_prefix(names::AGENT_USER_AGENT)
            .and_then(|rest| rest.strip_prefix('/'))
            .filter(|version| is_version(version));
        Self(version.unwrap_or_default().to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An agent may send any text; users see only valid versions.
fn is_version(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+');
    text.len() <= LONGEST && text.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::ours("headroom-agent/0.1.0 tonic/0.14.9", "0.1.0")]
    #[case::pre_release("headroom-agent/0.2.0-rc.1+5", "0.2.0-rc.1+5")]
    #[case::older("tonic/0.14.9", "")]
    #[case::no_version("headroom-agent tonic/0.14.9", "")]
    #[case::another("headroom-agents/1", "")]
    #[case::strange("headroom-agent/\u{1b}[2J", "")]
    #[case::long("headroom-agent/111111111111111111111111111111111", "")]
    #[case::empty("", "")]
    fn a_version_is_read_from_the_user_agent(#[case] text: &str, #[case] version: &str) {
        assert_eq!(AgentVersion::from_user_agent(text).as_str(), version);
    }
}
