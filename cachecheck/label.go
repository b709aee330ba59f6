package cachecheck

// The taxonomy: every name that a finding can have, in one table. A label says
// what was done to the prompt; whether that cost anything is Waste, and how
// sure we are of the name is Confidence.

// Label is the name of what happened between two requests.
type Label string

// Waste says whether a change is money lost.
type Waste string

// The kinds of waste. Depends is waste unless somebody planned it; Maybe rests
// on times or estimates, and Unknown on nothing that the recording shows.
const (
	WasteNo      Waste = "no"
	WasteYes     Waste = "yes"
	WasteDepends Waste = "depends"
	WasteMaybe   Waste = "maybe"
	WasteUnknown Waste = "unknown"
)

// Confidence says what a label rests on.
type Confidence string

// Proved: the bytes alone say so, by an exact test. Inferred: a pattern, a time
// or an estimate says so. Unknown: the bytes differ, or the counters fall
// short, and nothing we know explains it.
const (
	Proved   Confidence = "proved"
	Inferred Confidence = "inferred"
	Unknown  Confidence = "unknown"
)

// The labels.
const (
	First   Label = "first"   // of its lineage: nothing to compare with
	Append  Label = "append"  // B begins with all of A
	Rewind  Label = "rewind"  // B is a shorter exact prefix of A
	Fork    Label = "fork"    // B leaves A at the end of a turn and goes on
	Retry   Label = "retry"   // B is A
	OddBody Label = "skipped" // can't be compared; Result.Odd says why

	ToolsOrder    Label = "tools.order"
	ToolsAdded    Label = "tools.set.added"
	ToolsRemoved  Label = "tools.set.removed"
	ToolsKeyOrder Label = "tools.key_order"
	ToolsVolatile Label = "tools.volatile"
	ToolsEdit     Label = "tools.edit"
	ToolsGuard    Label = "tools.guard_rewrite"

	SystemTime    Label = "system.time"
	SystemNonce   Label = "system.nonce"
	SystemDynamic Label = "system.dynamic"
	SystemOrder   Label = "system.order"
	SystemHoist   Label = "system.hoist"

	HistoryMutated    Label = "history.mutated"
	HistoryTransient  Label = "history.transient"
	HistoryIDs        Label = "history.ids"
	HistoryToolArgs   Label = "history.tool_args"
	HistoryReasoning  Label = "history.reasoning"
	HistoryShape      Label = "history.shape"
	HistoryImage      Label = "history.image"
	HistoryCompaction Label = "history.compaction"
	HistoryReorder    Label = "history.reorder"

	ParamModel      Label = "param.model"
	ParamEffort     Label = "param.effort"
	ParamThinking   Label = "param.thinking"
	ParamVerbosity  Label = "param.verbosity"
	ParamToolChoice Label = "param.tool_choice"
	ParamParallel   Label = "param.parallel_tools"
	ParamFormat     Label = "param.format"
	ParamSpeed      Label = "param.speed"
	ParamTier       Label = "param.service_tier"
	ParamBetas      Label = "param.betas"
	ParamCacheKey   Label = "param.cache_key"
	ParamToggles    Label = "param.toggles"

	BreakpointNone     Label = "breakpoint.none"
	BreakpointDropped  Label = "breakpoint.dropped"
	BreakpointVolatile Label = "breakpoint.on_volatile"
	BreakpointLookback Label = "breakpoint.lookback"
	BreakpointBudget   Label = "breakpoint.budget"
	BreakpointOrder    Label = "breakpoint.order"

	EndpointExtended Label = "endpoint.extended"
	UnitPartial      Label = "unit.partial"
	TTLExpired       Label = "ttl.expired"
	TTLChanged       Label = "ttl.changed"
	MinTokens        Label = "min.tokens"
	ColdParallel     Label = "cold.parallel"
	WireBodyOrder    Label = "wire.body_order"
	WireOnly         Label = "wire.only"
	ScopeChanged     Label = "scope.changed"
	ProviderMiss     Label = "provider_miss"
	Unreported       Label = "unreported"
	ModelGap         Label = "model_gap"
)

// LabelInfo is what the taxonomy says of a label.
type LabelInfo struct {
	Label Label  `json:"label"`
	Waste Waste  `json:"waste"`
	Break bool   `json:"break"` // the prefix moved, or could not be read
	Says  string `json:"says"`
	Fix   string `json:"fix,omitempty"`
}

var taxonomy = []LabelInfo{
	{First, WasteNo, false, "first request of its lineage", ""},
	{Append, WasteNo, false, "the earlier request is a prefix of this one", ""},
	{Rewind, WasteNo, false, "a shorter exact prefix of the earlier request", ""},
	{Fork, WasteNo, false, "leaves the earlier request after a turn's end and goes on from there", ""},
	{Retry, WasteNo, false, "the same request again", ""},
	{OddBody, WasteNo, false, "not compared", ""},
	{ToolsOrder, WasteYes, true, "the same tools in another order", "sort the tools by name before they are sent; don't range over a map"},
	{ToolsAdded, WasteDepends, true, "a tool was added", "declare all tools from the start, or use deferred loading"},
	{ToolsRemoved, WasteDepends, true, "a tool was removed", "keep the declaration and forbid the call with tool_choice or allowed_tools"},
	{ToolsKeyOrder, WasteYes, true, "the same tools with their keys in another order", "encode schemas with a fixed key order"},
	{ToolsVolatile, WasteYes, true, "a value in a tool's text changes by itself", "take ids, paths, ports and times out of tool descriptions"},
	{ToolsEdit, WasteDepends, true, "a tool's declaration was edited", "change tools between sessions only"},
	{ToolsGuard, WasteYes, true, "guardproxy's own narrowing was switched on, off or changed in between", "keep the rules fixed within a session"},
	{SystemTime, WasteYes, true, "a date or time in the system text", "move the time to the end of the last user message"},
	{SystemNonce, WasteYes, true, "a random value in the system text", "drop the value, or move it out of the prompt"},
	{SystemDynamic, WasteYes, true, "generated text within the system text changed", "move what changes (memory, git state, lists) behind the stable text"},
	{SystemOrder, WasteYes, true, "the same system blocks in another order", "fix the order of the blocks"},
	{SystemHoist, WasteYes, true, "a message was moved into the system text", "leave system messages where they stand in the conversation"},
	{HistoryMutated, WasteYes, true, "an old message was changed in place", "append; if old results must shrink, do it seldom and all at once"},
	{HistoryTransient, WasteYes, true, "text that stood in the last user message only", "keep what was sent, or put it behind the last marker"},
	{HistoryIDs, WasteYes, true, "only ids of old calls changed", "keep the ids that the model gave"},
	{HistoryToolArgs, WasteYes, true, "the arguments of an old call were serialised anew", "replay the argument text byte for byte"},
	{HistoryReasoning, WasteYes, true, "reasoning was dropped from, or added to, an old message", "send reasoning back unchanged for as long as its turn is in the history"},
	{HistoryShape, WasteYes, true, "the same text in another shape (string or blocks)", "serialise a message the same way each time"},
	{HistoryImage, WasteYes, true, "an image at an old position changed", "send the same bytes for an image each time; don't re-scale old ones"},
	{HistoryCompaction, WasteNo, true, "the history was replaced by a summary", ""},
	{HistoryReorder, WasteYes, true, "the same old messages in another order", "keep messages in the order in which they were sent"},
	{ParamModel, WasteDepends, true, "another model", "keep the model within a session"},
	{ParamEffort, WasteDepends, true, "another reasoning effort", "fix the effort within a session"},
	{ParamThinking, WasteDepends, true, "other thinking parameters", "fix the thinking budget within a session"},
	{ParamVerbosity, WasteDepends, true, "another verbosity", "fix the verbosity within a session"},
	{ParamToolChoice, WasteDepends, true, "another tool choice", "leave tool_choice alone within a session"},
	{ParamParallel, WasteDepends, true, "parallel tool calls switched", "leave the switch alone within a session"},
	{ParamFormat, WasteDepends, true, "another response format", "use one schema a session, or a tool for structured output"},
	{ParamSpeed, WasteDepends, true, "another speed", "choose the speed once a session"},
	{ParamTier, WasteDepends, true, "another service tier", "choose the tier once a session"},
	{ParamBetas, WasteDepends, true, "another set of beta features", "send the same beta header within a session"},
	{ParamCacheKey, WasteDepends, true, "another cache key", "use one cache key a conversation"},
	{ParamToggles, WasteDepends, true, "a hosted feature was switched", "switch hosted tools, citations and context management between sessions only"},
	{BreakpointNone, WasteYes, true, "no marker anywhere: nothing is ever cached", "mark the last block, or use automatic caching"},
	{BreakpointDropped, WasteYes, true, "the markers of the earlier request are gone", "keep cache_control on its way through gateways and SDKs"},
	{BreakpointVolatile, WasteYes, true, "the first marker stands on a block that changes each time", "put the marker on the last stable block"},
	{BreakpointLookback, WasteYes, true, "the earlier marker is further back than the provider looks", "set a second marker every 15 blocks or so"},
	{BreakpointBudget, WasteYes, true, "more markers than the provider takes", "use four markers at most, automatic caching included"},
	{BreakpointOrder, WasteYes, true, "a short-lived marker before a longer-lived one", "put 1h markers before 5m ones"},
	{EndpointExtended, WasteYes, true, "the last message was extended, so its old end is inside of it", "append a message instead of extending one"},
	{UnitPartial, WasteYes, true, "the common text ends inside a user message, where nothing was stored", "put what is shared into a message of its own"},
	{TTLExpired, WasteMaybe, true, "the pause was longer than the entry lives", "use the longer lifetime where pauses are usual"},
	{TTLChanged, WasteYes, true, "the same marker with another lifetime", "keep one lifetime a marker"},
	{MinTokens, WasteMaybe, true, "the marked prefix is shorter than the provider's minimum", "mark a longer prefix, or none"},
	{ColdParallel, WasteMaybe, true, "sent before the first answer began, when nothing could be read yet", "start one request, wait for its first byte, then start the others"},
	{WireBodyOrder, WasteMaybe, false, "messages stand before tools or system in the body", "serialise tools and system before the messages"},
	{WireOnly, WasteNo, false, "other bytes, same prompt (white space, escapes, number spelling)", ""},
	{ScopeChanged, WasteDepends, true, "another credential, host or upstream: another cache", "pin credential, region and provider within a session"},
	{ProviderMiss, WasteUnknown, true, "nothing in the requests explains why less was read", ""},
	{Unreported, WasteUnknown, false, "the provider reported no cache counters", ""},
	{ModelGap, WasteNo, false, "a miss was predicted and a hit reported: our rule is wrong here", ""},
}

var infos = func() map[Label]*LabelInfo {
	m := make(map[Label]*LabelInfo, len(taxonomy))
	for i := range taxonomy {
		m[taxonomy[i].Label] = &taxonomy[i]
	}
	return m
}()

// Labels lists the taxonomy in its order. The slice is the caller's.
func Labels() []LabelInfo { return append([]LabelInfo(nil), taxonomy...) }

// Info is what the taxonomy says of l; the zero LabelInfo for an unknown label.
func (l Label) Info() LabelInfo {
	if i := infos[l]; i != nil {
		return *i
	}
	return LabelInfo{}
}
