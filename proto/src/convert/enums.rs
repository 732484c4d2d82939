//! Conversions between wire enums and domain enums (modes and timing profiles); `UNSPECIFIED` is always an error.

use headroom_domain::{estimate::Profile, hint::AgentMode, policy::Mode};

use super::WireError;
use crate::v1alpha1 as wire;

impl TryFrom<wire::Mode> for AgentMode {
    type Error = WireError;

    fn try_from(mode: wire::Mode) -> Result<Self, WireError> {
        match mode {
            wire::Mode::Unspecified => Err(WireError::new("mode", "is unspecified")),
            wire::Mode::Full => Ok(Self::Full),
            wire::Mode::FullShed => Ok(Self::FullShed),
            wire::Mode::Proc => Ok(Self::Proc),
            wire::Mode::Blind => Ok(Self::Blind),
        }
    }
}

impl From<AgentMode> for wire::Mode {
    fn from(sight: AgentMode) -> Self {
        match sight {
            AgentMode::Full => Self::Full,
            AgentMode::FullShed => Self::FullShed,
            AgentMode::Proc => Self::Proc,
            AgentMode::Blind => Self::Blind,
        }
    }
}

impl TryFrom<wire::Timing> for Profile {
    type Error = WireError;

    fn try_from(timing: wire::Timing) -> Result<Self, WireError> {
        match timing {
            wire::Timing::Unspecified => Err(WireError::new("timing", "is unspecified")),
            wire::Timing::Production => Ok(Self::Production),
            wire::Timing::Demo => Ok(Self::Demo),
        }
    }
}

impl From<Profile> for wire::Timing {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Production => Self::Production,
            Profile::Demo => Self::Demo,
        }
    }
}

impl From<Mode> for wire::AmplificationMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Off => Self::Off,
            Mode::Static => Self::Static,
            Mode::Guard => Self::Guard,
            Mode::Auto => Self::Auto,
        }
    }
}

impl TryFrom<wire::AmplificationMode> for Mode {
    type Error = WireError;

    fn try_from(mode: wire::AmplificationMode) -> Result<Self, WireError> {
        match mode {
            wire::AmplificationMode::Unspecified => Err(WireError::new("mode", "is unspecified")),
            wire::AmplificationMode::Off => Ok(Self::Off),
            wire::AmplificationMode::Static => Ok(Self::Static),
            wire::AmplificationMode::Guard => Ok(Self::Guard),
            wire::AmplificationMode::Auto => Ok(Self::Auto),
        }
    }
}
