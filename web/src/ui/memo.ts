// A component that is drawn again only when one of its properties is another. Preact has one in `compat`, which also
// changes how every event of the page behaves.
import { Component, type ComponentChild, type FunctionComponent } from "preact";

export function memo<P extends object>(draw: (props: P) => ComponentChild): FunctionComponent<P> {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const names = new Set([...Object.keys(next), ...Object.keys(this.props)]) as Set<keyof P>;
      for (const name of names) if (next[name] !== (this.props as P)[name]) return true;
      return false;
    }
    override render(): ComponentChild {
      return draw(this.props as P);
    }
  }
  return Memo as unknown as FunctionComponent<P>;
}
