//! Chooses a program for a hook, loads it and attaches it: the typed one, else its raw fallback.
//!
//! The verifier checks the loads of a typed program against the kernel's own types. A raw fallback reads the same offsets
//! with a helper, unchecked. So the fallback is used where typed programs are not available, and never after the verifier
//! examined and refused a typed program: an offset may be wrong. Refusals differ only in the verifier's wording, which is
//! not stable, so every refusal with a verifier log counts as one.

use aya::{
    Btf, Ebpf,
    programs::{BtfTracePoint, Program, ProgramError, RawTracePoint, links::FdLink},
};

use super::verdict::{HookVerdict, Refusal};
use crate::kernel::hooks::{Flavour, Hook};

/// Loads and attaches a program for the hook; returns the verdict, and the link if it is attached.
pub(super) fn attach(ebpf: &mut Ebpf, hook: Hook, btf: Option<&Btf>) -> (HookVerdict, Option<FdLink>) {
    let typed = match btf {
        Some(btf) => match load_typed(ebpf, hook, btf).and_then(|()| link(ebpf, hook, Flavour::Typed)) {
            Ok(link) => return (HookVerdict::attached(hook, Flavour::Typed, None), Some(link)),
            Err(error) => Some(Refusal::from(error)),
        },
        None => None,
    };
    if let Some(refusal) = typed.as_ref().filter(|refusal| refusal.blocks_raw_fallback(hook)) {
        return (
            HookVerdict::refused(hook, refusal.clone().without_fallback()),
            None,
        );
    }
    match load_raw(ebpf, hook).and_then(|()| link(ebpf, hook, Flavour::Raw)) {
        Ok(link) => (HookVerdict::attached(hook, Flavour::Raw, typed), Some(link)),
        Err(error) => (
            HookVerdict::refused(hook, typed.unwrap_or_else(|| error.into())),
            None,
        ),
    }
}

fn load_typed(ebpf: &mut Ebpf, hook: Hook, btf: &Btf) -> Result<(), ProgramError> {
    let program: &mut BtfTracePoint = program_mut(ebpf, hook, Flavour::Typed)?.try_into()?;
    program.load(hook.tracepoint(), btf)
}

fn load_raw(ebpf: &mut Ebpf, hook: Hook) -> Result<(), ProgramError> {
    let program: &mut RawTracePoint = program_mut(ebpf, hook, Flavour::Raw)?.try_into()?;
    program.load()
}

/// Attaches a loaded program until the link is dropped.
pub(super) fn link(ebpf: &mut Ebpf, hook: Hook, flavour: Flavour) -> Result<FdLink, ProgramError> {
    let program = program_mut(ebpf, hook, flavour)?;
    let link = match flavour {
        Flavour::Typed => {
            let program: &mut BtfTracePoint = program.try_into()?;
            let id = program.attach()?;
            program.take_link(id)?.into()
        }
        Flavour::Raw => {
            let program: &mut RawTracePoint = program.try_into()?;
            let id = program.attach(hook.tracepoint())?;
            program.take_link(id)?.into()
        }
    };
    Ok(link)
}

fn program_mut(ebpf: &mut Ebpf, hook: Hook, flavour: Flavour) -> Result<&mut Program, ProgramError> {
    let name = hook.program(flavour);
    ebpf.program_mut(name).ok_or_else(|| ProgramError::InvalidName {
        name: name.to_owned(),
    })
}
