// What a gateway that the extension starts is given beside its configuration file: docs/configuration.md has the variables.

export interface AgentSettings {
  readonly promptCaching: boolean;
  readonly contextShortening: boolean;
  /** Dollars a day; 0: no budget. */
  readonly dailyBudget: number;
}

/** Variables that switch on what a coding agent needs. All are set: the editor's own environment does not decide. */
export function agentDefaults({ promptCaching, contextShortening, dailyBudget }: AgentSettings) {
  const features = [promptCaching && "prompt_caching", contextShortening && "context_management"];
  return {
    PENSTOCK_FEATURES: features.filter(Boolean).join(","),
    PENSTOCK_DAILY_BUDGET: dailyBudget ? String(dailyBudget) : "",
  };
}
