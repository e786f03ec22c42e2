// The providers of the AI SDK by name, each as a function of the address it should speak to. Packages are loaded when needed.
const apiKey = "none";

export function providersOf(load) {
  // compatibility (4) and includeUsage make the SDK ask for usage, as its users do; the later versions always ask.
  const openai = async (baseURL) => (await load("@ai-sdk/openai")).createOpenAI({ baseURL, apiKey, compatibility: "strict" });
  return {
    "openai-chat": async (baseURL) => {
      const made = await openai(baseURL);
      return { model: (id = "gpt-5") => made.chat(id), tools: made.tools };
    },
    "openai-responses": async (baseURL) => {
      const made = await openai(baseURL);
      return { model: (id = "gpt-5") => made.responses(id), tools: made.tools };
    },
    "openai-compatible": async (baseURL) => {
      const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
      const made = createOpenAICompatible({ name: "compatible", baseURL, apiKey, includeUsage: true });
      return { model: (id = "model") => made.chatModel(id) };
    },
    anthropic: async (baseURL) => {
      const made = (await load("@ai-sdk/anthropic")).createAnthropic({ baseURL, apiKey });
      return { model: (id = "claude-sonnet-4-5") => made(id), tools: made.tools };
    },
    google: async (baseURL) => {
      const made = (await load("@ai-sdk/google")).createGoogleGenerativeAI({ baseURL, apiKey });
      return { model: (id = "gemini-2.5-flash") => made(id), tools: made.tools };
    },
    // These two are installed for 7 alone.
    "open-responses": async (baseURL) => {
      const { createOpenResponses } = await load("@ai-sdk/open-responses");
      // Unlike its siblings it takes the whole address.
      const made = createOpenResponses({ name: "open-responses", url: `${baseURL}/responses`, apiKey });
      return { model: (id = "model") => made(id) };
    },
    mistral: async (baseURL) => {
      const made = (await load("@ai-sdk/mistral")).createMistral({ baseURL, apiKey });
      return { model: (id = "mistral-large-latest") => made(id) };
    },
  };
}
