import assert from "node:assert/strict";
import { test } from "node:test";
import { failureOf } from "../src/errors.ts";
import { asBudget, type Budget, budgetLevel, budgetNotice, describeBudget, dollars } from "../src/extras/budget.ts";
import { agentDefaults } from "../src/gateway/defaults.ts";
import { Status } from "../src/status.ts";

const budget = (used: number, more: Partial<Budget> = {}): Budget => ({
  day: "2026-11-17",
  limit: 5,
  used,
  lifted: false,
  enforced: true,
  ...more,
});

test("a budget is near from 80% on, over at 100%, and neither when it is lifted", () => {
  const levels = [0, 3.99, 4, 4.999, 5, 6].map((used) => budgetLevel(budget(used)));
  assert.deepEqual(levels, ["", "", "near", "near", "over", "over"]);
  assert.equal(budgetLevel(budget(6, { lifted: true })), "");
  assert.equal(budgetLevel(budget(6, { limit: null })), "");
});

test("the status bar shows it when it matters, and the tooltip always", () => {
  const status = new Status();
  status.budget(budget(1));
  assert.equal(status.shown().text, "$(circle-outline) Penstock");
  assert.match(status.shown().tooltip, /Today \$1 of the budget of \$5 are spent \(20%\)\.$/);
  status.budget(budget(4.126));
  assert.deepEqual([status.shown().text, status.shown().warning], ["$(warning) Penstock: $4.13 of $5 today", true]);
  status.budget(budget(5.5));
  assert.match(status.shown().tooltip, /\(110%\)\. Requests are refused\.$/);
  status.budget(budget(5.5, { lifted: true }));
  assert.equal(status.shown().warning, false);
  assert.match(describeBudget(budget(5.5, { lifted: true })), /It is lifted for today\.$/);
  assert.match(describeBudget(budget(0, { enforced: false })), /is not counted/);
  status.budget(undefined);
  assert.equal(status.shown().tooltip.includes("budget"), false);
});

test("what a person is told", () => {
  assert.equal(budgetNotice(budget(4.1)), "Penstock: 82% of today's budget of $5 is spent ($4.10).");
  assert.equal(budgetNotice(budget(5.02)), "Penstock: today's budget of $5 is used up ($5.02 spent).");
  assert.deepEqual([5, 4.369, 0.0042, 0.5, 0, 100].map(dollars), ["$5", "$4.37", "$0.0042", "$0.50", "$0", "$100"]);
});

test("a refusal by the budget is no provider's, names the command, and is asked again at once", () => {
  const message = "today's budget of $5 is used up ($5.02 spent): raise or lift it in the program that started it";
  const line = { kind: "error", fault: "quota", code: "daily_budget", message, status: 429 } as const;
  const failure = failureOf(line, "Anthropic");
  assert.equal(
    failure.message,
    "Today's budget of $5 is used up ($5.02 spent): run “Penstock: Lift Today's Budget”, raise penstock.gateway.dailyBudget, or wait until midnight.",
  );
  assert.equal(failure.lasting, false);
});

test("what is no budget is none", () => {
  assert.equal(asBudget(undefined), undefined);
  assert.equal(asBudget({ day: 1, used: "2" }), undefined);
  assert.deepEqual(asBudget(budget(1)), budget(1));
});

test("a gateway is started with what an agent needs, unless it is switched off", () => {
  const on = { promptCaching: true, contextShortening: true, dailyBudget: 0 };
  assert.deepEqual(agentDefaults(on), {
    PENSTOCK_FEATURES: "prompt_caching,context_management",
    PENSTOCK_DAILY_BUDGET: "",
  });
  assert.deepEqual(agentDefaults({ promptCaching: false, contextShortening: true, dailyBudget: 2.5 }), {
    PENSTOCK_FEATURES: "context_management",
    PENSTOCK_DAILY_BUDGET: "2.5",
  });
});
